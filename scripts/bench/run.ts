/**
 * `npm run bench`: the same server once per row, each loaded in turn with the bare server, half a second at a time, so
 * that a machine that slows down slows both down. Prints Markdown tables.
 */
import { Command } from '@commander-js/extra-typings'
import { integer } from '../commands/support/option-values.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { untilInterrupted } from './interruption.js'
import {
  LOADED_SERVERS,
  type Measurement,
  type MeasureOptions,
  measureRow,
  type Servers,
  startServers,
} from './measure.js'
import { markdownReport } from './report.js'
import { chooseRows, ROWS, type Row } from './rows.js'
import { Backends, isReachable } from './servers.js'

// The defaults take about 20 minutes for all rows.
const program = new Command('npm run bench --')
  .option('--rounds <int>', 'how often every row is measured', integer('rounds', 1, 100), 5)
  .option(
    '--seconds <int>',
    'how long a row is loaded in a round, and the bare server as long',
    integer('seconds', 1, 600),
    4,
  )
  .option(
    '--processes <int>',
    `how many processes serve a row, of which ${LOADED_SERVERS} at a time are loaded`,
    // A higher number has more connections than PostgreSQL takes by default.
    integer('processes', 1, 16),
    1,
  )
  .option('--rows <substring...>', 'parts of the names of the rows to measure, besides the bare server')
  .addHelpText('after', `\nRows:\n${ROWS.map(({ name }) => `  ${name}`).join('\n')}`)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

async function bench(signal: AbortSignal): Promise<void> {
  const { rounds, seconds, processes, rows: parts = [''] } = program.opts()
  const options: MeasureOptions = { seconds, processes, signal }
  const [bareRow, ...rows] = ROWS
  const results: { readonly row: Row; readonly rounds: Measurement[] }[] = []
  for (const row of chooseRows(rows, parts, program)) {
    const { name, needs = 'sqlite' } = row
    if (await isReachable(needs)) results.push({ row, rounds: [] })
    else warnLine(`SKIPPED, since no ${needs} server answers: ${name}`)
  }
  if (results.length === 0) return
  const backends = new Backends()
  const measureRound = async (round: number, bare: Servers) => {
    for (const { row, rounds: measurements } of results) {
      signal.throwIfAborted()
      warnLine(`round ${round} of ${rounds}: ${row.name}`)
      measurements.push(await backends.with(row, (backend) => measureRow(row, backend, bare, options)))
    }
  }
  try {
    for (let round = 1; round <= rounds; round++) {
      await backends.with(bareRow, async (backend) => {
        const bare = await startServers(bareRow, backend, options)
        await measureRound(round, bare).finally(bare.stop)
      })
    }
  } finally {
    await backends.close()
  }
  for (const line of markdownReport(results, { seconds, processes })) printLine(line)
}

await untilInterrupted('bench', bench)
