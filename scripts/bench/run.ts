/**
 * `npm run bench`: the same server once per row, in interleaved rounds, so that a machine that slows down slows all
 * rows down. Prints Markdown tables, or JSON.
 */

import { writeFile } from 'node:fs/promises'
import { Command, Option } from '@commander-js/extra-typings'
import { errorLine } from '../../src/errors.js'
import { integer } from '../commands/support/integer.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { findLoadGenerator } from './load-generator.js'
import { type MeasureOptions, measureRow } from './measure-row.js'
import type { Measurement } from './measurement.js'
import { memoryReport, memoryTable } from './memory.js'
import { pictureOf } from './picture.js'
import { Places } from './places.js'
import { jsonReport, markdownReport } from './report.js'
import { summarize } from './results.js'
import type { Row } from './row.js'
import { chooseRows, ROWS } from './rows.js'
import { isPostgresReachable, isRedisReachable } from './servers.js'

// With the defaults all rows take about 15 minutes.
const program = new Command('npm run bench --')
  .option('--rounds <int>', 'how often every row is measured', integer('rounds', 1, 100), 5)
  .option('--seconds <int>', 'how long one measurement lasts', integer('seconds', 1, 600), 4)
  .addOption(
    new Option('--only <rows>', 'rows to run, or parts of their names, separated by commas')
      .argParser(chooseRows)
      .default(ROWS, 'all'),
  )
  .option('--svg <file>', 'a file to draw the ratios to bare Fastify into')
  .option('--memory', 'measure what a million clients take in memory instead')
  .option('--json', 'print one JSON object instead of text')
  .addHelpText('after', `\nRows: ${ROWS.map(({ id }) => id).join(', ')}`)
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
  .parse()

const interruption = new AbortController()

async function bench({ rounds, seconds, only, svg, memory, json = false } = program.opts()): Promise<number> {
  if (memory) return printMemory(json)
  const rows = await availableRows(only)
  const load = findLoadGenerator()
  const measured = await measureRounds(rows, rounds, { load, seconds, signal: interruption.signal })
  const results = rows.map((row) => summarize(row, measured.get(row) ?? []))
  const conditions = { load: load.name, rounds, seconds }
  if (json) printLine(JSON.stringify(jsonReport(results, conditions)))
  else for (const line of markdownReport(results, conditions)) printLine(line)
  if (svg !== undefined) await writeFile(svg, pictureOf(results))
  const failed = results.filter(({ failures }) => failures > 0)
  for (const { row, failures } of failed) warnLine(`${row.title}: ${failures} request(s) failed or were refused`)
  return failed.length === 0 ? 0 : 1
}

async function printMemory(json: boolean): Promise<number> {
  const measured = await memoryReport()
  if (json) printLine(JSON.stringify(measured))
  else for (const line of memoryTable(measured)) printLine(line)
  return 0
}

/** Returns the rows whose servers answer, and reports the others. */
async function availableRows(rows: readonly Row[]): Promise<readonly Row[]> {
  const servers = [
    { need: 'postgresql', isReachable: isPostgresReachable, text: 'PostgreSQL server answers at TEST_POSTGRES_URL' },
    { need: 'redis', isReachable: isRedisReachable, text: 'Redis server answers at TEST_REDIS_URL' },
  ]
  let available = rows
  for (const { need, isReachable, text } of servers) {
    const skipped = available.filter(({ needs }) => needs === need)
    if (skipped.length === 0 || (await isReachable())) continue
    warnLine(`SKIPPED, since no ${text}: ${skipped.map(({ id }) => id).join(', ')}`)
    available = available.filter(({ needs }) => needs !== need)
  }
  return available
}

async function measureRounds(
  rows: readonly Row[],
  rounds: number,
  options: MeasureOptions,
): Promise<ReadonlyMap<Row, Measurement[]>> {
  const measured = new Map<Row, Measurement[]>(rows.map((row) => [row, []]))
  const places = await Places.open()
  try {
    for (let round = 1; round <= rounds; round++) {
      for (const [row, measurements] of measured) {
        options.signal.throwIfAborted()
        warnLine(`round ${round} of ${rounds}: ${row.title}`)
        measurements.push(await places.with(row, (place) => measureRow(row, place, options)))
      }
    }
    return measured
  } finally {
    await places.close()
  }
}

// Stops the current work, which then cleans up; a second signal ends the process at once.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort())
try {
  process.exitCode = await bench()
} catch (error) {
  warnLine(`bench: ${interruption.signal.aborted ? 'interrupted' : errorLine(error)}`)
  process.exitCode = interruption.signal.aborted ? 130 : 1
}
