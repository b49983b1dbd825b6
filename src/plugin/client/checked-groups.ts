/** Writes of rules by Prisma: they leave no group too many, whoever else writes meanwhile. */

import type { Dialect } from '../../database/dialect.js'
import type { Prisma } from '../../database/generated/sqlite/client.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import type { Values } from '../../rules/description.js'
import { MAX_NAMED_GROUPS } from '../../rules/group.js'
import { RULES } from '../../rules/rule.js'
import { refuseExtraGroup } from '../../rules/stored-groups.js'
import { batchTransaction, isInTransaction, transactionClient } from './transaction-client.js'

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
 * Creates the function that sends a write of rules.
 *
 * A write alone is a transaction that fails where it leaves a group too many. An interactive transaction may go on after
 * a failure: there groups are counted before the write. The writes of `$transaction([…])` are counted one after the
 * other; another process may then add a group at the same moment, and servers skip the rules of the one too many.
 */
export function createGroupWriter(client: GeneratedClient, { provider, table }: Dialect) {
  const rules = table(RULES.table)
  // Writers of groups wait for each other and for who has locked the table, and nobody who writes no group does.
  const locks = provider === 'sqlite' ? [] : [`LOCK TABLE ${rules} IN SHARE UPDATE EXCLUSIVE MODE`]
  const written = new WeakMap<object, string[]>()

  /**
   * @returns the groups that are stored
   * @throws RuleValidationError where the write would leave one too many
   */
  async function refuseExtra(queries: GeneratedClient, where: RowWrite['where'], groups: readonly string[]) {
    const before = await readGroups(queries, {})
    const kept = where === undefined ? before : await readGroups(queries, { NOT: where })
    refuseExtraGroup(before, [...kept, ...groups])
    return before
  }

  return async function writeRules({ call, send, where, rows }: RowWrite): Promise<unknown> {
    const groups = rows.flatMap(({ group }) => (typeof group === 'string' && group !== '' ? [group] : []))
    if (groups.length === 0) return send()
    const queries = transactionClient(client, call)
    if (queries !== client) for (const sql of locks) await queries.$executeRawUnsafe(sql)
    const batch = batchTransaction(call)
    const together = batch === undefined ? groups : [...(written.get(batch) ?? []), ...groups]
    if (batch !== undefined) written.set(batch, together)
    const stored = await refuseExtra(queries, where, together)
    if (isInTransaction(call)) return send()
    const most = Math.max(MAX_NAMED_GROUPS, stored.filter((group) => group !== '').length)
    // No group may be NULL: the statement fails where there are too many.
    const check = `UPDATE ${rules} SET group_name = NULL
      WHERE (SELECT COUNT(DISTINCT group_name) FROM ${rules} WHERE group_name <> '') > ${most}`
    const locked = locks.map((sql) => client.$executeRawUnsafe(sql))
    try {
      const answers = await client.$transaction([...locked, send(), client.$executeRawUnsafe(check)])
      return answers[locks.length]
    } catch (error) {
      await refuseExtra(client, where, groups)
      throw error
    }
  }
}

async function readGroups({ rateLimitRule }: GeneratedClient, where: object): Promise<string[]> {
  const rows = await rateLimitRule.findMany({ where, distinct: ['group'], select: { group: true } })
  return rows.map(({ group }) => group)
}
