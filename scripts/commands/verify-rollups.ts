import { verifyRollups } from '../../src/analytics/verify-rollups.js'
import { defineCommand } from './support/command.js'
import { interruptible } from './support/interruption.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { createProgress } from './support/progress.js'
import { elapsedSeconds } from './support/stopwatch.js'

/** So many days are named; of the others only how many there are. */
const MAX_NAMED_DAYS = 10

export const verifyRollupsCommand = defineCommand({
  name: 'verify-rollups',
  summary: 'Recount the event log, and repair what the reports add up',
  description: [
    'Reports add up counts by hour and day, which database triggers keep. This compares them with the events, and makes those of days that differ anew; while it repairs a day, new events wait (and counters, on SQLite): those of a server give up after five seconds, which only a day of millions takes. Nothing has to be run for reports to be right: it is for after a restore, or after somebody disabled the triggers.',
    'With --dry-run nothing is repaired, and the exit status is 1 where something differs.',
  ],
  options: {
    'dry-run': { type: 'flag', help: 'say what differs, repair nothing' },
    ...DATABASE_OPTIONS,
  },
  environment: DATABASE_ENVIRONMENT,
  example: 'ratelimit verify-rollups --dry-run',

  run: async ({ 'dry-run': dryRun, schema }) =>
    withExistingDatabase(commandSettings(schema), ({ database }) =>
      interruptible(async (signal) => {
        const startedMs = performance.now()
        const progress = createProgress()
        const onProgress = (days: number) => progress.show(`Compared ${days} day(s) so far`)
        const verified = await verifyRollups(database, { dryRun, onProgress, signal }).finally(progress.end)
        const seconds = elapsedSeconds(startedMs)
        const { days, wrong_rows: rows, wrong_days: wrongDays } = verified
        const json = { ...verified, repaired: !dryRun && rows > 0, elapsed_seconds: seconds, dry_run: dryRun }
        if (rows === 0)
          return {
            json,
            lines: [`The rollups of ${days} day(s) agree with the event log (${seconds} s).`],
          }
        const differing = `${rows} row(s) of ${wrongDays.length} of ${days} day(s): ${daysLine(wrongDays)}`
        return dryRun
          ? { json, lines: [], failures: [`the rollups differ from the event log in ${differing}`] }
          : { json, lines: [`Repaired ${differing} (${seconds} s).`] }
      }),
    ),
})

function daysLine(days: readonly string[]): string {
  const named = days.slice(0, MAX_NAMED_DAYS).join(', ')
  return days.length > MAX_NAMED_DAYS ? `${named} and ${days.length - MAX_NAMED_DAYS} more` : named
}
