import { countOf } from '../../src/ground/number-text.js'
import { systemClock } from '../../src/ground/time/clock.js'
import { verifyRollups } from '../../src/log/rollups/catch-up.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { runBatches } from './support/progress.js'

export async function run(options: DatabaseOptions, context: CommandContext): Promise<CommandResult> {
  return withExistingDatabase(commandSettings(options, context), context, async ({ database }) => {
    const { result, seconds, failures } = await runBatches(
      context,
      (hours) => `Counted ${countOf(hours, 'hour')} so far`,
      (batches) => verifyRollups(database.log, systemClock.now(), batches),
    )
    const lines = [`Counted the events of ${countOf(result, 'hour')} again (${seconds} s).`]
    return { json: { hours: result, elapsed_seconds: seconds }, lines, failures }
  })
}
