/**
 * `npm run bench`: the same server once per row, in interleaved rounds, so that a machine that slows down slows all
 * rows down. Prints Markdown tables.
 */
import { Command } from '@commander-js/extra-typings'
import { errorLine } from '../../src/errors.js'
import { integer } from '../commands/support/option-values.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { type Measurement, measureRow } from './measure.js'
import { Places } from './places.js'
import { markdownReport } from './report.js'
import { chooseRows, ROWS, type Row } from './rows.js'
import { isPostgresReachable, isRedisReachable } from './servers.js'

// With the defaults all rows take about 15 minutes.
const program = new Command('npm run bench --')
  .option('--rounds <int>', 'how often every row is measured', integer('rounds', 1, 100), 5)
  .option('--seconds <int>', 'how long one measurement lasts', integer('seconds', 1, 600), 4)
  .option('--rows <substring...>', 'parts of the names of the rows to measure, with the bare server of each')
  .addHelpText('after', `\nRows:\n${ROWS.map(({ name }) => `  ${name}`).join('\n')}`)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

const interruption = new AbortController()
const { signal } = interruption

async function bench({ rounds, seconds, rows: parts = [''] } = program.opts()): Promise<void> {
  const measured = (await availableRows(chooseWithBare(parts))).map((row) => ({ row, rounds: [] as Measurement[] }))
  const places = await Places.open()
  try {
    for (let round = 1; round <= rounds; round++) {
      for (const { row, rounds: measurements } of measured) {
        signal.throwIfAborted()
        warnLine(`round ${round} of ${rounds}: ${row.name}`)
        measurements.push(await places.with(row, (place) => measureRow(row, place, seconds, signal)))
      }
    }
  } finally {
    await places.close()
  }
  for (const line of markdownReport(measured, seconds)) printLine(line)
}

/** Returns the rows whose names contain one of the parts, and the bare rows that they are compared with. */
function chooseWithBare(parts: readonly string[]): readonly Row[] {
  const chosen = chooseRows(ROWS, parts, program)
  return ROWS.filter((row) => chosen.includes(row) || chosen.some(({ bare }) => bare === row.name))
}

/** Returns the rows whose servers answer, and reports the others. */
async function availableRows(rows: readonly Row[]): Promise<readonly Row[]> {
  const [postgresql, redis] = await Promise.all([isPostgresReachable(), isRedisReachable()])
  const reachable = { postgresql, redis, sqlite: true }
  return rows.filter(({ name, needs = 'sqlite' }) => {
    if (!reachable[needs]) warnLine(`SKIPPED, since no ${needs} server answers: ${name}`)
    return reachable[needs]
  })
}

// Stops the current work, which then cleans up; a second signal ends the process at once.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interruption.abort())
try {
  await bench()
} catch (error) {
  warnLine(`bench: ${signal.aborted ? 'interrupted' : errorLine(error)}`)
  process.exitCode = signal.aborted ? 130 : 1
}
