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
import type { Settings } from '../../src/settings.js'
import { DatabaseStore } from '../../src/stores/database-store.js'
import { RedisStore } from '../../src/stores/redis-store.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  missingFile,
  withDatabase,
} from './support/open-database.js'

export const health = defineCommand({
  name: 'health',
  summary: 'Check the database, Redis, the rules and the mail server',
  description: [
    'Asks whether the database answers, is migrated and takes writes, whether the rules can be read, how old the last event is, what became of the jobs of the scheduler, whether Redis takes writes where it is set, and whether the mail server takes a sign-in where mails are to be sent. Nothing is sent, and nothing written but counters called "health", and the migrations that a SQLite file lacks, as whenever it is opened.',
    'The exit status is 1 where something fails. Every check takes five seconds at most.',
  ],
  options: DATABASE_OPTIONS,
  environment: {
    ...DATABASE_ENVIRONMENT,
    RATELIMIT_REDIS_URL: 'the Redis to ask',
    RATELIMIT_ALERT_EMAILS: 'whom alerts are sent to: then the mail server is asked',
    DEFAULT_FROM_EMAIL: 'the sender of these mails',
    SMTP_URL: 'the mail server',
  },
  example: 'ratelimit health',

  async run({ schema }) {
    const settings = commandSettings(schema)
    const redis = settings.redis === undefined ? undefined : new RedisStore({ redis: settings.redis })
    try {
      return await withDatabase(settings, async (opened): Promise<CommandResult> => {
        const found = await checkHealth(looksOf(settings, opened, redis))
        const checks = HEALTH_CHECKS.map((name) => ({ name, ...found.checks[name] }))
        return {
          json: found,
          lines: checks.map(({ name, status, detail }) => `${status.padEnd(7)}  ${name.padEnd(8)}  ${detail}`),
          failures: checks
            .filter(({ status }) => status === 'failing')
            .map(({ name, detail }) => `${name} fails: ${detail}`),
        }
      })
    } finally {
      await redis?.close()
    }
  },
})

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
