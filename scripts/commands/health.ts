import type { OpenDatabase } from '../../src/client.js'
import { checkHealth, HEALTH_CHECKS, type Looks } from '../../src/health/health.js'
import {
  databaseLook,
  lastEventLook,
  mailLook,
  redisLook,
  ruleTableLook,
  scheduleLook,
} from '../../src/health/looks.js'
import { JobLeases } from '../../src/schedule/job-leases.js'
import type { Settings } from '../../src/settings/resolve.js'
import { DatabaseStore } from '../../src/stores/database-store.js'
import { RedisStore } from '../../src/stores/redis-store.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, missingFile, withDatabase } from './support/open-database.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  const redis = settings.redis === undefined ? undefined : new RedisStore({ redis: settings.redis })
  try {
    return await withDatabase(settings, async (opened) => {
      const found = await checkHealth(looksOf(settings, opened, redis))
      const checks = HEALTH_CHECKS.map((name) => ({ name, ...found.checks[name] }))
      const failing = checks.filter(({ status }) => status === 'failing')
      return {
        json: found,
        lines: checks.map(({ name, status, detail }) => `${status.padEnd(7)}  ${name.padEnd(8)}  ${detail}`),
        failures: failing.map(({ name, detail }) => `${name} fails: ${detail}`),
      }
    })
  } finally {
    await redis?.close()
  }
}

function looksOf(
  { clock, alerts }: Settings,
  { client, database }: OpenDatabase,
  redis: RedisStore | undefined,
): Looks {
  const missing = missingFile(database)
  const toDatabase = {
    database: databaseLook(database, clock, new DatabaseStore({ database: client })),
    rules: ruleTableLook(database),
    events: lastEventLook(database, clock),
    schedule: scheduleLook(new JobLeases(database), clock),
  }
  return {
    ...(missing === undefined ? toDatabase : { database: () => fail(`there is no database at ${missing}`) }),
    ...(redis === undefined ? {} : { redis: redisLook(redis, clock) }),
    ...(alerts.emails.length === 0 ? {} : { mail: mailLook(alerts) }),
  }
}

function fail(problem: string): never {
  throw new Error(problem)
}
