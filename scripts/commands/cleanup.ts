import { cleanupState, type StateCleanup } from '../../src/stores/state-cleanup.js'
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

/** What each kind of row is called, in the order in which it is told. */
const KINDS: readonly { kind: keyof StateCleanup; label: string; one: string }[] = [
  { kind: 'counters', label: 'Counters', one: 'counter(s)' },
  { kind: 'entries', label: 'Entries', one: 'sliding-window entries' },
  { kind: 'token_buckets', label: 'Token buckets', one: 'token bucket(s)' },
  { kind: 'leaky_buckets', label: 'Leaky buckets', one: 'leaky bucket(s)' },
]

export const cleanup = defineCommand({
  name: 'cleanup',
  summary: 'Delete rate-limit counters that expired',
  description: [
    'Deletes the counters, sliding-window entries, token buckets and leaky buckets that expired more than --stale-days ago. They mean nothing any more, whatever their age: the days are only a grace period. Events and rules are not touched (see prune-events).',
  ],
  options: {
    'batch-size': BATCH_SIZE,
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
    return withExistingDatabase(settings, ({ database }) =>
      interruptible(async (signal) => {
        const startedMs = performance.now()
        const progress = createProgress()
        const onProgress = (deleted: number) => progress.show(`Deleted ${deleted} row(s) so far`)
        const cleaned = await cleanupState(database, settings.clock, {
          batchSize,
          staleDays,
          dryRun,
          count: verbose,
          onProgress,
          signal,
        }).finally(progress.end)
        const seconds = elapsedSeconds(startedMs)
        const totalDeleted = KINDS.reduce((sum, { kind }) => sum + cleaned[kind].deleted, 0)
        const totalFound = KINDS.reduce((sum, { kind }) => sum + cleaned[kind].found, 0)
        const done = ({ found, deleted }: { found: number; deleted: number }) =>
          dryRun ? `would delete ${found}` : `deleted ${deleted}`
        return {
          json: { ...cleaned, total_deleted: totalDeleted, elapsed_seconds: seconds, dry_run: dryRun },
          lines: [
            ...(dryRun ? ['DRY RUN: nothing is deleted.'] : []),
            ...(verbose
              ? KINDS.map(
                  ({ kind, one }) =>
                    `Found ${cleaned[kind].found} ${one} that expired more than ${staleDays} day(s) ago.`,
                )
              : []),
            ...KINDS.map(({ kind, label }) => `${label}: ${done(cleaned[kind])}`),
            `Total: ${done({ found: totalFound, deleted: totalDeleted })} row(s) in ${seconds} s`,
          ],
        }
      }),
    )
  },
})
