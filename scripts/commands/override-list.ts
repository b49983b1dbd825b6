import type { Database } from '../../src/db/database.js'
import { selectedColumns } from '../../src/db/dialect.js'
import { OVERRIDES } from '../../src/overrides/override.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { OVERRIDE_ROW, type OverrideRow, overrideJson, overrideLine } from './support/override-lines.js'

interface OverrideListOptions extends DatabaseOptions {
  readonly all?: true | undefined
}

export async function run(options: OverrideListOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const nowMs = settings.clock.now()
    const rows = await readOverrides(database, options.all ? null : nowMs)
    return {
      json: { overrides: rows.map((row) => overrideJson(row, nowMs)) },
      lines: [...rows.map((row) => overrideLine(row, nowMs)), `${rows.length} override(s).`],
    }
  })
}

type Moment = 'expiresAt' | 'createdAt' | 'updatedAt'
type Row = Omit<OverrideRow, Moment> & Readonly<Record<Moment, number | string | null>>

/**
 * Reads the overrides without Prisma, which fails on all rows where raw SQL wrote an invalid moment into one.
 *
 * @param expiredMs overrides that have expired by then are left out; null includes all
 */
async function readOverrides({ dialect, query }: Database, expiredMs: number | null): Promise<OverrideRow[]> {
  const unexpired = `WHERE expires_at IS NULL OR expires_at > ${dialect.fromMs('$1')}`
  const rows = await query<Row>(
    `SELECT ${selectedColumns(OVERRIDE_ROW)}
     FROM ${dialect.table(OVERRIDES.table)} ${expiredMs === null ? '' : unexpired}
     ORDER BY ${dialect.bytewise('client')}, ${dialect.bytewise('path_pattern')}`,
    expiredMs === null ? [] : [expiredMs],
  )
  return rows.map((row) => ({
    ...row,
    expiresAt: row.expiresAt === null ? null : new Date(Number(row.expiresAt)),
    createdAt: new Date(Number(row.createdAt)),
    updatedAt: new Date(Number(row.updatedAt)),
  }))
}
