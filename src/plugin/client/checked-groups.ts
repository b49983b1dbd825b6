/** Writes of rules by Prisma: they leave no group too many. */

import type { Prisma } from '../../database/generated/sqlite/client.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import type { Values } from '../../rules/description.js'
import { refuseExtraGroup } from '../../rules/stored-groups.js'
import { batchTransaction, transactionClient } from './transaction-client.js'

/** A write of rows, as a query extension has it. */
export interface RowWrite {
  readonly call: object
  /** Returns the write as a promise of Prisma, which starts when it is awaited, or as a part of a transaction. */
  send(): Prisma.PrismaPromise<unknown>
  /** The condition of the stored rows that the write changes; undefined where it creates rows. */
  readonly where: object | undefined
  /** The fields that it writes. */
  readonly rows: readonly Values[]
}

/**
 * Creates the function that sends a write of rules, and refuses one that would leave a group too many. Groups are counted
 * before the write, in its transaction where it is part of one. Writes by Prisma at the same moment may each add the last
 * group that there is room for: servers skip the rules of the one too many, and the next write is refused.
 */
export function createGroupWriter(client: GeneratedClient) {
  const written = new WeakMap<object, string[]>()
  return async function writeRules({ call, send, where, rows }: RowWrite): Promise<unknown> {
    const groups = rows.flatMap(({ group }) => (typeof group === 'string' && group !== '' ? [group] : []))
    if (groups.length === 0) return send()
    const queries = transactionClient(client, call)
    const before = await readGroups(queries, {})
    const kept = where === undefined ? before : await readGroups(queries, { NOT: where })
    // None of the writes of `$transaction([…])` is sent before all of them are counted.
    const batch = batchTransaction(call)
    const together = (batch && written.get(batch)) ?? []
    together.push(...groups)
    if (batch !== undefined) written.set(batch, together)
    refuseExtraGroup(before, [...kept, ...together])
    return send()
  }
}

async function readGroups({ rateLimitRule }: GeneratedClient, where: object): Promise<string[]> {
  const rows = await rateLimitRule.findMany({ where, distinct: ['group'], select: { group: true } })
  return rows.map(({ group }) => group)
}
