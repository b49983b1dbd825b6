/** Writes of rules by Prisma: they leave no group too many, whoever else writes meanwhile. */

import type { Dialect } from '../../database/dialect.js'
import type { Prisma } from '../../database/generated/sqlite/client.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import type { Values } from '../../rules/description.js'
import { MAX_NAMED_GROUPS } from '../../rules/group.js'
import { RULES } from '../../rules/rule.js'
import { refuseExtraGroup } from '../../rules/stored-groups.js'
import { batchTransaction, interactiveTransaction, transactionClient } from './transaction-client.js'

/** Numbers the lock of PostgreSQL that writers hold from before they count groups until they have committed. */
const GROUP_LOCK = 72_707_371

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

/** A write of rules, with the groups that it writes, but for the one without a name. */
interface GroupWrite extends RowWrite {
  readonly groups: readonly string[]
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
  // Who locks the table waits for the first lock, and other writes by Prisma for the second.
  const locks =
    provider === 'sqlite'
      ? []
      : [`LOCK TABLE ${rules} IN ROW EXCLUSIVE MODE`, `SELECT pg_advisory_xact_lock(${GROUP_LOCK})`]
  const written = new WeakMap<object, string[]>()

  /**
   * @returns the groups that are stored
   * @throws RuleValidationError where the write would leave one too many
   */
  async function refuseExtra(queries: GeneratedClient, { where, groups }: GroupWrite) {
    const before = await readGroups(queries, {})
    const kept = where === undefined ? before : await readGroups(queries, { NOT: where })
    refuseExtraGroup(before, [...kept, ...groups])
    return before
  }

  async function writeAlone(write: GroupWrite): Promise<unknown> {
    const stored = (await refuseExtra(client, write)).filter((group) => group !== '')
    const most = Math.max(MAX_NAMED_GROUPS, stored.length)
    // No group may be NULL: the statement fails where there are too many.
    const check = `UPDATE ${rules} SET group_name = NULL
      WHERE (SELECT COUNT(DISTINCT group_name) FROM ${rules} WHERE group_name <> '') > ${most}`
    const locked = locks.map((sql) => client.$executeRawUnsafe(sql))
    try {
      const answers = await client.$transaction([...locked, write.send(), client.$executeRawUnsafe(check)])
      return answers[locks.length]
    } catch (error) {
      await refuseExtra(client, write)
      throw error
    }
  }

  return async function writeRules(rowWrite: RowWrite): Promise<unknown> {
    const groups = rowWrite.rows.flatMap(({ group }) => (typeof group === 'string' && group !== '' ? [group] : []))
    if (groups.length === 0) return rowWrite.send()
    const write = { ...rowWrite, groups }
    const batch = batchTransaction(write.call)
    if (batch !== undefined) {
      const ofBatch = written.get(batch) ?? []
      written.set(batch, ofBatch)
      ofBatch.push(...groups)
      await refuseExtra(client, { ...write, groups: ofBatch })
    } else if (interactiveTransaction(write.call) !== undefined) {
      const queries = transactionClient(client, write.call)
      for (const sql of locks) await queries.$executeRawUnsafe(sql)
      await refuseExtra(queries, write)
    } else {
      return writeAlone(write)
    }
    return write.send()
  }
}

async function readGroups({ rateLimitRule }: GeneratedClient, where: object): Promise<string[]> {
  const rows = await rateLimitRule.findMany({ where, distinct: ['group'], select: { group: true } })
  return rows.map(({ group }) => group)
}
