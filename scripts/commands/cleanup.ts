import { countOf } from '../../src/ground/number-text.js'
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
const KINDS: readonly { kind: keyof StateCleanup; label: string; one: string; many?: string }[] = [
  { kind: 'counters', label: 'Counters', one: 'counter' },
  { kind: 'entries', label: 'Entries', one: 'sliding-window entry', many: 'sliding-window entries' },
  { kind: 'token_buckets', label: 'Token buckets', one: 'token bucket' },
  { kind: 'leaky_buckets', label: 'Leaky buckets', one: 'leaky bucket' },
  {
    kind: 'permits',
    label: 'Concurrency',
    one: 'counter of requests in progress',
    many: 'counters of requests in progress',
  },
]

export async function run(options: CleanupOptions, context: CommandContext): Promise<CommandResult> {
  const { batchSize, staleDays, dryRun = false, verbose = false } = options
  const settings = commandSettings(options, context)
  return withExistingDatabase(settings, context, async ({ database }) => {
    const { result, seconds, failures } = await runBatches(
      context,
      (deleted) => `Deleted ${countOf(deleted, 'row')} so far`,
      (batches) => cleanupState(database, settings.clock, { batchSize, staleDays, dryRun, count: verbose, ...batches }),
    )
    const total = (count: 'found' | 'deleted') => KINDS.reduce((sum, { kind }) => sum + result[kind][count], 0)
    const done = (found: number, deleted: number) => (dryRun ? `would delete ${found}` : `deleted ${deleted}`)
    const foundLines = KINDS.map(
      ({ kind, one, many }) =>
        `Found ${countOf(result[kind].found, one, many)} that expired more than ${countOf(staleDays, 'day')} ago.`,
    )
    return {
      json: { ...result, total_deleted: total('deleted'), elapsed_seconds: seconds, dry_run: dryRun },
      lines: [
        ...(dryRun ? ['DRY RUN: nothing is deleted.'] : []),
        ...(verbose ? foundLines : []),
        ...KINDS.map(({ kind, label }) => `${label}: ${done(result[kind].found, result[kind].deleted)}`),
        `Total: ${done(total('found'), total('deleted'))} rows in ${seconds} s`,
      ],
      failures,
    }
  })
}
