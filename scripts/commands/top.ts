import { DAY_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { createReportRunner } from '../../src/reports/report.js'
import { type TopClient, topClients } from '../../src/reports/top-clients.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { parseLength } from './support/option-values.js'
import { follow } from './support/progress.js'
import { printLine } from './support/terminal.js'

interface TopOptions extends DatabaseOptions {
  readonly within: string
  readonly by: 'refused' | 'requests'
  readonly limit: number
  readonly follow?: true | undefined
  readonly json?: true | undefined
}

const PAUSE_MS = 5 * SECOND_MS
const CLEAR = '\u001b[H\u001b[2J'
/** The policies of a client that its line names. */
const NAMED_POLICIES = 3
const HEADINGS = ['CLIENT', 'REQUESTS', 'OVER LIMIT', 'WOULD BE', 'DENIED', 'POLICIES'] as const

export async function run(options: TopOptions, context: CommandContext): Promise<CommandResult> {
  const { within, by, limit } = options
  const { stdout } = context
  const days = parseLength('--within', within) / DAY_MS
  const settings = commandSettings(options, context)
  return withDatabaseToRead(settings, async ({ database }) => {
    const runReport = createReportRunner(database, settings.clock)
    const read = async () => toResult(within, await runReport(topClients({ days, by, limit })))
    if (!options.follow) return read()
    await follow(context.signal, PAUSE_MS, async () => {
      const { json, lines } = await read()
      if (stdout.isTTY && !options.json) stdout.write(CLEAR)
      for (const line of options.json ? [JSON.stringify(json)] : lines) printLine(line, stdout)
    })
    return { lines: [] }
  })
}

function toResult(within: string, clients: readonly TopClient[]) {
  const rows = [HEADINGS, ...clients.map(toCells)]
  const widths = HEADINGS.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const table = rows.map((row) =>
    row
      .map((cell, column) =>
        isNumeric(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd(),
  )
  return { json: { within, clients }, lines: clients.length === 0 ? [`No request within ${within}.`] : table }
}

function isNumeric(column: number): boolean {
  return column > 0 && column < HEADINGS.length - 1
}

function toCells({ client, requests, over_limit, would_be, denied, policies }: TopClient): string[] {
  const named = policies.slice(0, NAMED_POLICIES).map(({ policy }) => policy)
  const others = policies.length - named.length
  return [
    client || '(unknown)',
    ...[requests, over_limit, would_be, denied].map(String),
    named.join(', ') + (others > 0 ? `, ${others} more` : ''),
  ]
}
