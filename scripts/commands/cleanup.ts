import { cleanupCounters } from '../../src/stores/counter-cleanup.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { MAX_DAYS, MAX_INTEGER } from './support/options.js'
import { elapsedSeconds } from './support/stopwatch.js'

export const cleanup = defineCommand({
  name: 'cleanup',
  summary: 'Delete rate-limit counters that expired',
  description: [
    'Deletes the counters whose window ended more than --stale-days ago. They mean nothing any more, whatever their age: the days are only a grace period. Events and rules are not touched (see prune-events).',
  ],
  options: {
    'batch-size': {
      type: 'integer',
      of: 'rows',
      min: 1,
      max: MAX_INTEGER,
      default: 1000,
      help: 'rows that one statement deletes',
    },
    'stale-days': {
      type: 'integer',
      of: 'days',
      min: 0,
      max: MAX_DAYS,
      default: 7,
      help: 'days to keep a counter after it expired',
    },
    'dry-run': { type: 'flag', help: 'say what would be deleted, delete nothing' },
    verbose: { type: 'flag', help: 'also say how many were found' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit cleanup --dry-run --verbose',

  async run({ 'batch-size': batchSize, 'stale-days': staleDays, 'dry-run': dryRun, verbose, schema }) {
    const settings = commandSettings(schema)
    return withExistingDatabase(settings, async ({ database }): Promise<CommandResult> => {
      const startedMs = performance.now()
      const counters = await cleanupCounters(database, settings.clock, { batchSize, staleDays, dryRun })
      const seconds = elapsedSeconds(startedMs)
      const done = dryRun ? `would delete ${counters.found}` : `deleted ${counters.deleted}`
      return {
        json: { counters, total_deleted: counters.deleted, elapsed_seconds: seconds, dry_run: dryRun },
        lines: [
          ...(dryRun ? ['DRY RUN: nothing is deleted.'] : []),
          ...(verbose ? [`Found ${counters.found} counter(s) that expired more than ${staleDays} day(s) ago.`] : []),
          `Counters: ${done}`,
          `Total: ${done} row(s) in ${seconds} s`,
        ],
      }
    })
  },
})
