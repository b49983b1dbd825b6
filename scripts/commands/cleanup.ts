import { cleanupState, type StateCleanup } from '../../src/limiter/stores/sql/state-cleanup.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { runBatches } from './support/progress.js'

interface CleanupOptions extends DatabaseOptions {
  readonly batchSize: number
  readonly staleDays: number
  readonly dryRun?: true | undefined
  readonly verbose?: true | undefined
}

/** The names of the kinds of rows, in the order of the output. */
const KINDS: readonly { kind: keyof StateCleanup; label: string; one: string }[] = [
  { kind: 'counters', label: 'Counters', one: 'counter(s)' },
  { kind: 'entries', label: 'Entries', one: 'sliding-window entries' },
  { kind: 'token_buckets', label: 'Token buckets', one: 'token bucket(s)' },
  { kind: 'leaky_buckets', label: 'Leaky buckets', one: 'leaky bucket(s)' },
  { kind: 'permits', label: 'Concurrency', one: 'counter(s) of requests in progress' },
]

export async function run(options: CleanupOptions, context: CommandContext): Promise<CommandResult> {
  const { batchSize, staleDays, dryRun = false, verbose = false } = options
  const settings = commandSettings(options, context)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const { result, seconds, failures } = await runBatches(
      context,
      (deleted) => `Deleted ${deleted} row(s) so far`,
      (batches) => cleanupState(database, settings.clock, { batchSize, staleDays, dryRun, count: verbose, ...batches }),
    )
    const total = (count: 'found' | 'deleted') => KINDS.reduce((sum, { kind }) => sum + result[kind][count], 0)
    const done = (found: number, deleted: number) => (dryRun ? `would delete ${found}` : `deleted ${deleted}`)
    const foundLines = KINDS.map(
      ({ kind, one }) => `Found ${result[kind].found} ${one} that expired more than ${staleDays} day(s) ago.`,
    )
    return {
      json: { ...result, total_deleted: total('deleted'), elapsed_seconds: seconds, dry_run: dryRun },
      lines: [
        ...(dryRun ? ['DRY RUN: nothing is deleted.'] : []),
        ...(verbose ? foundLines : []),
        ...KINDS.map(({ kind, label }) => `${label}: ${done(result[kind].found, result[kind].deleted)}`),
        `Total: ${done(total('found'), total('deleted'))} row(s) in ${seconds} s`,
      ],
      failures,
    }
  })
}
