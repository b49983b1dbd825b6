/**
 * `npm run bench`: the same server once per row, in interleaved rounds, so that a machine that slows down slows all
 * rows down. Prints a Markdown table, or JSON.
 */

import { type Options, parseOptions } from '../commands/support/options.js'
import { didYouMean } from '../commands/support/suggest.js'
import { describeError, printLine, warnLine } from '../commands/support/terminal.js'
import { UsageError } from '../commands/support/usage-error.js'
import { createDatabases, isPostgresReachable } from './databases.js'
import type { Measurement } from './load.js'
import { measureRow } from './measure-row.js'
import { conditionsLine, jsonReport, markdownTable, summarize } from './report.js'
import { ROWS, type Row } from './rows.js'

const OPTIONS = {
  rounds: { type: 'integer', of: 'rounds', min: 1, max: 100, default: 3, help: 'how often every row is measured' },
  seconds: { type: 'integer', of: 'seconds', min: 1, max: 600, default: 6, help: 'how long one measurement lasts' },
  only: { type: 'text', help: 'rows to run, separated by commas' },
} as const satisfies Options

async function bench(args: readonly string[]): Promise<number> {
  const { values, json, help } = parseOptions(OPTIONS, args)
  if (help) {
    printLine('Usage: npm run bench -- [--rounds <int>] [--seconds <int>] [--only <row,row>] [--json]')
    printLine(`Rows: ${ROWS.map(({ id }) => id).join(', ')}`)
    return 0
  }
  const { rounds, seconds } = values
  const rows = await availableRows(chosenRows(values.only))
  const measured = await measureRounds(rows, rounds, seconds)
  const results = rows.map((row) => summarize(row, measured.get(row) ?? []))
  if (json) {
    printLine(JSON.stringify(jsonReport(results, rounds, seconds)))
  } else {
    for (const line of [conditionsLine(rounds, seconds), '', ...markdownTable(results)]) printLine(line)
  }
  const failed = results.filter(({ failures }) => failures > 0)
  for (const { title, failures } of failed) warnLine(`${title}: ${failures} request(s) failed or were refused`)
  return failed.length === 0 ? 0 : 1
}

function chosenRows(only: string | undefined): readonly Row[] {
  if (only === undefined) return ROWS
  const known = ROWS.map(({ id }) => id)
  const ids = only.split(',').map((id) => id.trim())
  const unknown = ids.find((id) => !known.includes(id))
  if (unknown !== undefined) {
    throw new UsageError(
      `--only is ${JSON.stringify(unknown)}${didYouMean(unknown, known) || `: give ${known.join(', ')}`}`,
    )
  }
  return ROWS.filter(({ id }) => ids.includes(id))
}

async function availableRows(rows: readonly Row[]): Promise<readonly Row[]> {
  if (!rows.some(({ needs }) => needs === 'postgresql') || (await isPostgresReachable())) return rows
  warnLine('SKIPPED: no PostgreSQL server answers at TEST_POSTGRES_URL (postgresql://postgres@127.0.0.1:5432/test)')
  return rows.filter(({ needs }) => needs !== 'postgresql')
}

async function measureRounds(
  rows: readonly Row[],
  rounds: number,
  seconds: number,
): Promise<ReadonlyMap<Row, Measurement[]>> {
  const measured = new Map<Row, Measurement[]>(rows.map((row) => [row, []]))
  const databases = await createDatabases(rows.some(({ needs }) => needs === 'postgresql'))
  try {
    for (let round = 1; round <= rounds; round++) {
      for (const [row, measurements] of measured) {
        warnLine(`round ${round} of ${rounds}: ${row.title}`)
        measurements.push(await measureRow(row, seconds, databases.urlFor(row), databases.schema))
      }
    }
    return measured
  } finally {
    await databases.remove()
  }
}

try {
  process.exitCode = await bench(process.argv.slice(2))
} catch (error) {
  warnLine(`bench: ${describeError(error)}`)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
