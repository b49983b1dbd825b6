import type { GeneratedClient } from '../db/client.js'

/**
 * The client to ask beside a write: inside of an interactive transaction the transaction's own, since no other
 * sees what it has written. Prisma tells an extension about it only here, and the version of Prisma is the one that this package is built with.
 *
 * @param call what the query extension was called with
 * @throws Error where this version of Prisma does not tell: any other client could read something else, or wait for
 * ever for the transaction's locks
 */
export function clientBeside(client: GeneratedClient, call: object): GeneratedClient {
  const transaction = interactiveTransaction(call)
  if (transaction === undefined) return client
  const createItxClient: unknown = Reflect.get(client, '_createItxClient')
  if (typeof createItxClient !== 'function') throw unknownPrisma('_createItxClient')
  return createItxClient.call(client, transaction)
}

/**
 * The interactive transaction that a write is part of: until its end no other reads what it writes.
 *
 * @throws Error as `clientBeside` does
 */
export function interactiveTransaction(call: object): object | undefined {
  const internal: unknown = Reflect.get(call, '__internalParams')
  if (typeof internal !== 'object' || internal === null) throw unknownPrisma('__internalParams')
  const transaction: unknown = Reflect.get(internal, 'transaction')
  if (typeof transaction !== 'object' || transaction === null) return undefined
  return Reflect.get(transaction, 'kind') === 'itx' ? transaction : undefined
}

function unknownPrisma(missing: string): Error {
  return new Error(`A rule or an override cannot be checked before it is written: Prisma's runtime has no ${missing}`)
}
