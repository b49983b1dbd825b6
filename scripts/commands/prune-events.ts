import { defineCommand } from './support/command.js'
import { interruptible } from './support/interruption.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { BATCH_SIZE, MAX_DAYS } from './support/options.js'
import { createProgress } from './support/progress.js'
import { elapsedSeconds } from './support/stopwatch.js'

export const pruneEvents = defineCommand({
  name: 'prune-events',
  summary: 'Delete old events',
  description: [
    'Deletes the events that are older than --older-than-days, the oldest first and --batch-size at a time, so that a running server does not notice. When it is interrupted, what was deleted stays deleted. The event log is pruned by this and by the option `schedule` of servers alone: run it every day, unless they do.',
  ],
  options: {
    'older-than-days': {
      type: 'integer',
      of: 'days',
      min: 0,
      max: MAX_DAYS,
      default: 30,
      help: 'days to keep an event; 0 deletes all',
    },
    'batch-size': BATCH_SIZE,
    'dry-run': { type: 'flag', help: 'say what would be deleted, delete nothing' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit prune-events --older-than-days 90',

  run: async ({ 'older-than-days': olderThanDays, 'batch-size': batchSize, 'dry-run': dryRun, schema }) =>
    withExistingDatabase(commandSettings(schema), ({ client }) =>
      interruptible(async (signal) => {
        const startedMs = performance.now()
        const progress = createProgress()
        const onProgress = (deleted: number) => progress.show(`Deleted ${deleted} event(s) so far`)
        const found = await client.rateLimitEvent
          .cleanupOld({ olderThanDays, batchSize, dryRun, onProgress, signal })
          .finally(progress.end)
        const seconds = elapsedSeconds(startedMs)
        const older = `${found} event(s) older than ${olderThanDays} day(s)`
        return {
          json: {
            found,
            deleted: dryRun ? 0 : found,
            older_than_days: olderThanDays,
            elapsed_seconds: seconds,
            dry_run: dryRun,
          },
          lines: dryRun
            ? ['DRY RUN: nothing is deleted.', `Would delete ${older}.`]
            : [`Deleted ${older} in ${seconds} s.`],
        }
      }),
    ),
})
