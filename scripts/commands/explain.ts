import { fastify } from 'fastify'
import { databaseFor } from '../../src/database/database.js'
import { DEFAULT_DATABASE_URL } from '../../src/database/database-url.js'
import { errorMessage, InvalidSettingError } from '../../src/ground/errors.js'
import type { ExplainedLimit, Explanation } from '../../src/http/explain/explain.js'
import { RedisStore } from '../../src/limiter/stores/redis/redis-store.js'
import { needsDatabase } from '../../src/plugin/database-start.js'
import { registerWithSettings } from '../../src/plugin/plugin.js'
import { variableFor } from '../../src/plugin/settings/environment.js'
import type { Settings } from '../../src/plugin/settings/resolve.js'
import { explanationSentence } from '../../src/staff/dashboard/explain-page.js'
import { formatCount, visible } from '../../src/staff/dashboard/format.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import {
  commandSettings,
  type DatabaseOptions,
  missingFile,
  warnOfNewFile,
  withEnvironmentFile,
} from './support/open-database.js'
import { tableLines } from './support/terminal.js'

interface ExplainCommandOptions extends DatabaseOptions {
  readonly method: string
  readonly path: string
  readonly ip?: string | undefined
  readonly user?: string | undefined
}

const OF_THE_APP = "Limits in the app's own code are known only to the app: explain.html of its dashboard lists them."
const WITHOUT_RULES = `Rules and overrides are left out: ${variableFor('useDynamicRules')} is not true.`
const OF_A_PROCESS = 'Counters are in the memory of each server: what the client has used is known only there.'

export async function run(options: ExplainCommandOptions, context: CommandContext): Promise<CommandResult> {
  const serverSettings = commandSettings(options, context)
  const { path, ip, user } = options
  const method = options.method.toUpperCase()
  const { database: url = DEFAULT_DATABASE_URL } = serverSettings
  const settings = { ...serverSettings, useDynamicRules: readsRules(serverSettings, url, context) }
  if (needsDatabase(settings) && typeof url === 'string') warnOfNewFile({ url }, context.stderr)
  const explanation = await explain(settings, { method, path, ip, user })
  const notes = [OF_THE_APP, ...(settings.middleware.backend === 'memory' ? [OF_A_PROCESS] : [])]
  return {
    json: { ...explanation, notes: settings.useDynamicRules ? notes : [WITHOUT_RULES, ...notes] },
    lines: [
      // The answer may not be the app's where rules are off.
      ...(settings.useDynamicRules ? [] : [WITHOUT_RULES, '']),
      visible(`${method} ${path}`),
      explanationSentence(explanation, ip !== undefined),
      '',
      ...limitLines(explanation),
      '',
      'Mind:',
      ...notes.map((note) => `  ${note}`),
    ],
  }
}

/**
 * Returns whether rules and overrides are read: unless the variable says otherwise, wherever there is a database. Shells
 * often lack the app's variables, and who asks means what is in force.
 */
function readsRules({ useDynamicRules }: Settings, url: Settings['database'], { env }: CommandContext): boolean {
  const isGiven = Boolean(withEnvironmentFile(env)[variableFor('useDynamicRules')])
  return isGiven || typeof url !== 'string' || missingFile({ url }) !== undefined ? useDynamicRules : true
}

/** Asks an app without routes, which logs no events and runs no jobs. */
async function explain(
  settings: Settings,
  request: Pick<ExplainCommandOptions, 'method' | 'path' | 'ip' | 'user'>,
): Promise<Explanation> {
  const app = fastify()
  try {
    await registerWithSettings(app, {
      ...settings,
      logEvents: false,
      eventSpool: undefined,
      schedule: undefined,
      metrics: undefined,
    })
    await app.ready()
    const { client, store } = app.smartRateLimit
    // The server's fallback would answer without a database, as if the client had used nothing.
    if (needsDatabase(settings)) await databaseFor(client).requireMigrations()
    if (store instanceof RedisStore) await store.ready()
    return await app.smartRateLimit.explain(request).catch((error: unknown) => {
      throw error instanceof InvalidSettingError ? new UsageError(errorMessage(error)) : error
    })
  } finally {
    await app.close()
  }
}

function limitLines({ limits }: Explanation): string[] {
  return tableLines(
    ['', 'used', 'left', 'rate', 'limit', 'why'],
    limits.map((limit) => [limit.applies ? '*' : '', ...cells(limit)]),
  )
}

function cells({ policy, rate, count, remaining, why }: ExplainedLimit): string[] {
  const numbers = [count, remaining].map((number) => (number === null ? '' : formatCount(number)))
  return [...numbers, rate ?? '', visible(policy), visible(why)]
}
