/**
 * `npm run bench`: the same server once per row, in interleaved rounds, so that a machine that slows down slows all
 * rows down. Prints Markdown tables.
 */
import { Command } from '@commander-js/extra-typings'
import { integer } from '../commands/support/option-values.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { untilInterrupted } from './interruption.js'
import { LOADED_SERVERS, type Measurement, measureRow } from './measure.js'
import { markdownReport } from './report.js'
import { BARE, chooseRows, ROWS } from './rows.js'
import { isReachable, Places } from './servers.js'

// With the defaults all rows take about 15 minutes.
const program = new Command('npm run bench --')
  .option('--rounds <int>', 'how often every row is measured', integer('rounds', 1, 100), 5)
  .option('--seconds <int>', 'how long one measurement lasts', integer('seconds', 1, 600), 4)
  .option(
    '--processes <int>',
    `how many processes serve a row, of which ${LOADED_SERVERS} at a time are loaded`,
    // More have more connections than PostgreSQL takes by default.
    integer('processes', 1, 16),
    1,
  )
  .option('--rows <substring...>', 'parts of the names of the rows to measure, besides the bare server')
  .addHelpText('after', `\nRows:\n${ROWS.map(({ name }) => `  ${name}`).join('\n')}`)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

async function bench(signal: AbortSignal): Promise<void> {
  const { rounds, seconds, processes, rows: parts = [''] } = program.opts()
  const chosen = chooseRows(ROWS, parts, program)
  const measured = []
  for (const row of ROWS.filter((each) => each.name === BARE || chosen.includes(each))) {
    const { name, needs = 'sqlite' } = row
    if (await isReachable(needs)) measured.push({ row, rounds: [] as Measurement[] })
    else warnLine(`SKIPPED, since no ${needs} server answers: ${name}`)
  }
  const places = new Places()
  try {
    for (let round = 1; round <= rounds; round++) {
      for (const { row, rounds: measurements } of measured) {
        signal.throwIfAborted()
        warnLine(`round ${round} of ${rounds}: ${row.name}`)
        measurements.push(await places.with(row, (place) => measureRow(row, place, { seconds, processes, signal })))
      }
    }
  } finally {
    await places.close()
  }
  for (const line of markdownReport(measured, { seconds, processes })) printLine(line)
}

await untilInterrupted('bench', bench)
