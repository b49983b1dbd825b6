/** Opens the limiter of a server for a command. */
import { type FastifyInstance, fastify } from 'fastify'
import { databaseFor } from '../../../src/database/database.js'
import { DEFAULT_DATABASE_URL } from '../../../src/database/database-url.js'
import { RedisStore } from '../../../src/limiter/stores/redis/redis-store.js'
import { registerWithSettings } from '../../../src/plugin/plugin.js'
import { storesEntries } from '../../../src/plugin/settings/databases-in-use.js'
import { variableFor } from '../../../src/plugin/settings/environment.js'
import type { Settings } from '../../../src/plugin/settings/resolve.js'
import type { CommandContext } from './command.js'
import { missingFile, requireFile, sayWhichDatabase, withEnvironmentFile } from './open-database.js'

/**
 * Returns settings with rules and overrides, unless the variable says otherwise, wherever there is a database. Shells
 * often lack the app's variables, and who asks means what is in force.
 */
export function withRules(settings: Settings, { env }: CommandContext): Settings {
  const { database: url = DEFAULT_DATABASE_URL, useDynamicRules } = settings
  const isGiven = Boolean(withEnvironmentFile(env)[variableFor('useDynamicRules')])
  const isLeft = isGiven || typeof url !== 'string' || missingFile({ url }) !== undefined
  return { ...settings, useDynamicRules: isLeft ? useDynamicRules : true }
}

/**
 * Passes an app without routes to `work`, which logs no events and runs no jobs.
 *
 * @throws Error for a SQLite file that does not exist
 */
export async function withLimiter<T>(
  settings: Settings,
  context: CommandContext,
  work: (app: FastifyInstance) => Promise<T>,
): Promise<T> {
  const { database: url = DEFAULT_DATABASE_URL } = settings
  const limiting = {
    ...settings,
    logEvents: false,
    usage: false,
    eventSpool: undefined,
    schedule: undefined,
    metrics: undefined,
  } as const
  const needsDatabase = storesEntries(limiting)
  if (needsDatabase) sayWhichDatabase(settings, context)
  if (needsDatabase && typeof url === 'string') requireFile({ url })
  const app = fastify()
  try {
    await registerWithSettings(app, limiting)
    await app.ready()
    const { client, store } = app.smartRateLimit
    // The server's fallback would answer without a database, as if the client had used nothing.
    if (needsDatabase) await databaseFor(client).requireMigrations()
    if (store instanceof RedisStore) await store.ready()
    return await work(app)
  } finally {
    await app.close()
  }
}
