import { countOf } from '../../src/ground/number-text.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { runBatches } from './support/progress.js'

interface PruneEventsOptions extends DatabaseOptions {
  readonly olderThanDays: number
  readonly batchSize: number
  readonly dryRun?: true | undefined
}

export async function run(options: PruneEventsOptions, context: CommandContext): Promise<CommandResult> {
  const { olderThanDays, batchSize, dryRun = false } = options
  return withExistingDatabase(commandSettings(options, context), context, async ({ client }) => {
    const {
      result: found,
      seconds,
      failures,
    } = await runBatches(
      context,
      (deleted) => `Deleted ${countOf(deleted, 'event')} so far`,
      (batches) => client.rateLimitEvent.cleanupOld({ olderThanDays, batchSize, dryRun, ...batches }),
    )
    const older = `${countOf(found, 'event')} older than ${countOf(olderThanDays, 'day')}`
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
      failures,
    }
  })
}
