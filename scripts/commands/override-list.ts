import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { overrideJson, overrideLine } from './support/override-lines.js'

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
    return withExistingDatabase(settings, async ({ client }): Promise<CommandResult> => {
      const nowMs = settings.clock.now()
      const unexpired = { OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(nowMs) } }] }
      const rows = await client.rateLimitOverride.findMany({
        where: all ? {} : unexpired,
        orderBy: [{ client: 'asc' }, { pathPattern: 'asc' }],
      })
      return {
        json: { overrides: rows.map((row) => overrideJson(row, nowMs)) },
        lines: [...rows.map((row) => overrideLine(row, nowMs)), `${rows.length} override(s).`],
      }
    })
  },
})
