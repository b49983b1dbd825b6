/**
 * `npm run bench`: the same server once per row, in interleaved rounds, so that a machine that slows down slows all
 * rows down. Prints Markdown tables, or JSON.
 */

import { writeFile } from 'node:fs/promises'
import { lineOf } from '../../src/errors.js'
import { type Options, parseOptions, withCommonOptions } from '../commands/support/options.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { UsageError } from '../commands/support/usage-error.js'
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

// With these all rows take about a quarter of an hour.
const OPTIONS = {
  rounds: { type: 'integer', of: 'rounds', min: 1, max: 100, default: 5, help: 'how often every row is measured' },
  seconds: { type: 'integer', of: 'seconds', min: 1, max: 600, default: 4, help: 'how long one measurement lasts' },
  only: { type: 'text', help: 'rows to run, or parts of their names, separated by commas' },
  svg: { type: 'text', help: 'a file to draw the ratios to bare Fastify into' },
  memory: { type: 'flag', help: 'measure what a million clients take in memory instead' },
} as const satisfies Options

const interruption = new AbortController()

async function bench(args: readonly string[]): Promise<number> {
  const { values, json, help } = parseOptions(OPTIONS, args)
  if (help) return printHelp()
  if (values.memory) return printMemory(json)
  const rows = await availableRows(chooseRows(values.only))
  const { rounds, seconds } = values
  const load = findLoadGenerator()
  const measured = await measureRounds(rows, rounds, { load, seconds, signal: interruption.signal })
  const results = rows.map((row) => summarize(row, measured.get(row) ?? []))
  const conditions = { load: load.name, rounds, seconds }
  if (json) printLine(JSON.stringify(jsonReport(results, conditions)))
  else for (const line of markdownReport(results, conditions)) printLine(line)
  if (values.svg !== undefined) await writeFile(values.svg, pictureOf(results))
  const failed = results.filter(({ failures }) => failures > 0)
  for (const { row, failures } of failed) warnLine(`${row.title}: ${failures} request(s) failed or were refused`)
  return failed.length === 0 ? 0 : 1
}

function printHelp(): number {
  printLine('Usage: npm run bench -- [options]')
  for (const [name, { help }] of Object.entries(withCommonOptions(OPTIONS))) {
    printLine(`  --${name.padEnd(8)} ${help}`)
  }
  printLine(`Rows: ${ROWS.map(({ id }) => id).join(', ')}`)
  return 0
}

async function printMemory(json: boolean): Promise<number> {
  const measured = await memoryReport()
  if (json) printLine(JSON.stringify(measured))
  else for (const line of memoryTable(measured)) printLine(line)
  return 0
}

/** The rows whose server answers; what is left out is said aloud. */
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

// Stops what is under way, which then cleans up; a second signal ends at once.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort())
try {
  process.exitCode = await bench(process.argv.slice(2))
} catch (error) {
  warnLine(`bench: ${interruption.signal.aborted ? 'interrupted' : lineOf(error)}`)
  process.exitCode = interruption.signal.aborted ? 130 : error instanceof UsageError ? 2 : 1
}
