import { RedisStore } from '../../src/limiter/stores/redis/redis-store.js'
import { DatabaseStore } from '../../src/limiter/stores/sql/database-store.js'
import { channelProbes } from '../../src/operations/alerts/channels/channels.js'
import { HEALTH_CHECKS, type Probes, probeHealth } from '../../src/operations/health/health.js'
import {
  databaseProbe,
  lastEventProbe,
  lastUsageProbe,
  redisProbe,
  ruleTableProbe,
  scheduleProbe,
} from '../../src/operations/health/probes.js'
import { JobLeases } from '../../src/operations/schedule/job-leases.js'
import type { OpenDatabase } from '../../src/plugin/client/client.js'
import type { Settings } from '../../src/plugin/settings/resolve.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, missingFile, withDatabase } from './support/open-database.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  const redis = settings.redis === undefined ? undefined : new RedisStore({ redis: settings.redis })
  try {
    return await withDatabase(settings, context, async (opened) => {
      const found = await probeHealth(probesFor(settings, opened, redis))
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

function probesFor(
  { clock, alerts }: Settings,
  { client, database }: OpenDatabase,
  redis: RedisStore | undefined,
): Probes {
  const missing = missingFile(database)
  const { log } = database
  const hasOther = log !== database
  const missingLog = hasOther ? missingFile(log) : missing
  const toDatabase = {
    database: databaseProbe(database, clock, new DatabaseStore({ database: client })),
    rules: ruleTableProbe(database),
    charges: () => OF_A_PROCESS,
    lists: () => OF_A_PROCESS,
    schedule: scheduleProbe(new JobLeases(database), clock),
  }
  const toLog = {
    ...(hasOther && { log: databaseProbe(log, clock) }),
    events: lastEventProbe(log, clock),
    usage: lastUsageProbe(log),
  }
  return {
    ...(missing === undefined ? toDatabase : { database: () => fail(`there is no database at ${missing}`) }),
    ...(missingLog === undefined ? toLog : hasOther && { log: () => fail(`there is no database at ${missingLog}`) }),
    ...(redis === undefined ? {} : { redis: redisProbe(redis, clock) }),
    ...Object.fromEntries(channelProbes(alerts)),
  }
}

const OF_A_PROCESS = 'each server knows its own: see its health and metrics'

function fail(problem: string): never {
  throw new Error(problem)
}
