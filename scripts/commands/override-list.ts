import type { Database } from '../../src/db/database.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { type OverrideRow, overrideJson, overrideLine } from './support/override-lines.js'

export const overrideList = defineCommand({
  name: 'override list',
  summary: 'List the overrides of single clients',
  description: [
    'Lists the overrides that have not expired, by client. Servers leave out those that are marked as invalid: raw SQL wrote them.',
  ],
  options: { all: { type: 'flag', help: 'also those that have expired' }, ...DATABASE_OPTIONS },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit override list --all',

  async run({ all, schema }) {
    const settings = commandSettings(schema)
    return withExistingDatabase(settings, async ({ database }): Promise<CommandResult> => {
      const nowMs = settings.clock.now()
      const rows = await readOverrides(database, all ? null : nowMs)
      return {
        json: { overrides: rows.map((row) => overrideJson(row, nowMs)) },
        lines: [...rows.map((row) => overrideLine(row, nowMs)), `${rows.length} override(s).`],
      }
    })
  },
})

type Moment = 'expiresAt' | 'createdAt' | 'updatedAt'
type Row = Omit<OverrideRow, Moment> & Readonly<Record<Moment, number | string | null>>

/**
 * Not by Prisma, which reads none of them where raw SQL wrote into one what is no moment.
 *
 * @param expiredMs those that have expired by then are left out; null for none
 */
async function readOverrides({ dialect, query }: Database, expiredMs: number | null): Promise<OverrideRow[]> {
  const unexpired = `WHERE expires_at IS NULL OR expires_at > ${dialect.fromMs('$1')}`
  const rows = await query<Row>(
    `SELECT id, client, effect, algorithm, path_pattern AS "pathPattern", expires_at AS "expiresAt", note,
       created_at AS "createdAt", updated_at AS "updatedAt"
     FROM ${dialect.table('rate_limit_override')} ${expiredMs === null ? '' : unexpired}
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
