import { verifyRollups } from '../../src/analytics/verify-rollups.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { runBatches } from './support/progress.js'

interface VerifyRollupsOptions extends DatabaseOptions {
  readonly dryRun?: true | undefined
}

/** So many days are named; of the others only how many there are. */
const MAX_NAMED_DAYS = 10

export async function run(options: VerifyRollupsOptions, context: CommandContext): Promise<CommandResult> {
  const { dryRun = false } = options
  return withExistingDatabase(commandSettings(options, context), context, async ({ database }) => {
    const { result, seconds, failures } = await runBatches(
      context,
      (days) => `Compared ${days} day(s) so far`,
      (batches) => verifyRollups(database, { dryRun, ...batches }),
    )
    const { days, wrong_rows: rows, wrong_days: wrongDays } = result
    const json = { ...result, repaired: !dryRun && rows > 0, elapsed_seconds: seconds, dry_run: dryRun }
    if (rows === 0) {
      return { json, lines: [`The rollups of ${days} day(s) agree with the event log (${seconds} s).`], failures }
    }
    const differing = `${rows} row(s) of ${wrongDays.length} of ${days} day(s): ${daysLine(wrongDays)}`
    return dryRun
      ? { json, lines: [], failures: [`the rollups differ from the event log in ${differing}`, ...failures] }
      : { json, lines: [`Repaired ${differing} (${seconds} s).`], failures }
  })
}

function daysLine(days: readonly string[]): string {
  const named = days.slice(0, MAX_NAMED_DAYS).join(', ')
  return days.length > MAX_NAMED_DAYS ? `${named} and ${days.length - MAX_NAMED_DAYS} more` : named
}
