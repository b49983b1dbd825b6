import type { GeneratedClient } from '../../database/prisma/generated-client.js'

/**
 * Returns the client for queries beside a write: inside an interactive transaction the transaction's own, since only
 * that one sees what it has written. Prisma exposes it to an extension only in these internals, of the version that
 * this package is built with.
 *
 * @param call the argument of the query extension
 * @throws Error where this version of Prisma has no such internals: another client could read something else, or wait
 * for ever for the transaction's locks
 */
export function transactionClient(client: GeneratedClient, call: object): GeneratedClient {
  const transaction = interactiveTransaction(call)
  if (transaction === undefined) return client
  const createItxClient: unknown = Reflect.get(client, '_createItxClient')
  if (typeof createItxClient !== 'function') throw unknownPrisma('_createItxClient')
  return createItxClient.call(client, transaction)
}

/**
 * Returns the interactive transaction of a write, which no other client can read before it ends.
 *
 * @throws Error as `transactionClient` does
 */
export function interactiveTransaction(call: object): object | undefined {
  return findTransaction(call, 'itx')
}

/**
 * Returns what the writes of one `$transaction([…])` have in common; undefined for any other write.
 *
 * @throws Error as `transactionClient` does
 */
export function batchTransaction(call: object): object | undefined {
  const transaction = findTransaction(call, 'batch')
  if (transaction === undefined) return undefined
  const lock: unknown = Reflect.get(transaction, 'lock')
  if (typeof lock !== 'object' || lock === null) throw unknownPrisma('lock')
  return lock
}

/**
 * Returns whether a query is part of a transaction of any kind.
 *
 * @throws Error as `transactionClient` does
 */
export function isInTransaction(call: object): boolean {
  return (interactiveTransaction(call) ?? findTransaction(call, 'batch')) !== undefined
}

function findTransaction(call: object, kind: 'itx' | 'batch'): object | undefined {
  const internal: unknown = Reflect.get(call, '__internalParams')
  if (typeof internal !== 'object' || internal === null) throw unknownPrisma('__internalParams')
  const transaction: unknown = Reflect.get(internal, 'transaction')
  if (typeof transaction !== 'object' || transaction === null) return undefined
  return Reflect.get(transaction, 'kind') === kind ? transaction : undefined
}

function unknownPrisma(missing: string): Error {
  return new Error(`A rule or an override cannot be checked before it is written: Prisma's runtime has no ${missing}`)
}
