import { errorMessage, InvalidSettingError } from '../../src/ground/errors.js'
import { countOf } from '../../src/ground/number-text.js'
import { validateNamespace } from '../../src/ground/storable.js'
import { type ErasedTraces, eraseClient } from '../../src/operations/erasure/erase-client.js'
import { asActor } from '../../src/rules/history/actor.js'
import { type CommandContext, type CommandResult, commandActor, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { runBatches } from './support/progress.js'

interface EraseOptions extends DatabaseOptions {
  readonly client: string
  readonly namespace?: string | undefined
  readonly batchSize: number
  readonly dryRun?: true | undefined
}

/** The lines of the output, in the order of the work. */
const LINES: readonly (readonly [key: Exclude<keyof ErasedTraces, 'clients' | 'kept' | 'failures'>, label: string])[] =
  [
    ['events', 'Events'],
    ['emptied_events', 'Events of others that named it, emptied'],
    ['recounted_hours', 'Hours whose sums had it, counted again'],
    ['counters', 'Counters'],
    ['redis_counters', 'Counters in Redis'],
    ['usage', 'Sums of usage'],
    ['alerts', 'Alerts'],
    ['overrides', 'Overrides and bans'],
    ['changes', 'Changes in the history, without its name'],
  ]

export async function run(options: EraseOptions, context: CommandContext): Promise<CommandResult> {
  const { client, batchSize, dryRun = false } = options
  const settings = commandSettings(options, context)
  const { clock, ipv6Subnet, privacy, redis, eventSpool } = settings
  const { namespace } = options
  try {
    validateNamespace(namespace)
  } catch (error) {
    throw new UsageError(errorMessage(error))
  }
  return withExistingDatabase(settings, context, async ({ database }) => {
    const { result, seconds, failures } = await runBatches(
      context,
      (deleted) => `Deleted ${countOf(deleted, 'row')} so far`,
      ({ onProgress, signal }) =>
        asActor(commandActor('erase'), () =>
          eraseClient({ database, clock, ipv6Subnet, privacy, redis, namespace, eventSpool }, client, {
            dryRun,
            batchSize,
            onProgress,
            signal,
          }),
        ).catch((error: unknown) => {
          throw error instanceof InvalidSettingError ? new UsageError(errorMessage(error)) : error
        }),
    )
    const { clients, kept, failures: unreached } = result
    return {
      json: { ...result, elapsed_seconds: seconds, dry_run: dryRun },
      lines: [
        ...(dryRun ? ['DRY RUN: nothing is deleted.'] : []),
        `${dryRun ? 'Would be deleted' : 'Deleted'} of ${clients.join(' and ')}:`,
        ...LINES.map(([key, label]) => `  ${label}: ${result[key]}`),
        'Kept:',
        ...kept.map((sentence) => `  ${sentence}`),
      ],
      failures: [...failures, ...unreached],
    }
  })
}
