import { DAY_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { createReportRunner } from '../../src/reports/report.js'
import type { TimeRange } from '../../src/reports/report-window.js'
import { hasSums, type TopClient, topClients } from '../../src/reports/top-clients.js'
import { rangeText } from '../../src/staff/dashboard/time-range.js'
import type { CommandContext, CommandResult } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { parseLength, parseRange, type RangeOptions, rangeJson } from './support/option-values.js'
import { follow } from './support/progress.js'
import { printLine } from './support/terminal.js'

interface TopOptions extends DatabaseOptions, RangeOptions {
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
const HEADINGS = ['CLIENT', 'REQUESTS', 'REFUSED', 'WOULD BE REFUSED', 'DENIED', 'POLICIES'] as const

export async function run(options: TopOptions, context: CommandContext): Promise<CommandResult> {
  const { within, by, limit } = options
  const { stdout } = context
  const settings = commandSettings(options, context)
  const range = parseRange({ since: options.since, until: options.until }, settings.clock.now())
  const window = range ?? { days: parseLength('--within', within) / DAY_MS }
  return withDatabaseToRead(settings, context, async ({ database }) => {
    const runReport = createReportRunner(database, settings.clock)
    const read = async () => {
      const clients = await runReport(topClients({ ...window, by, limit }))
      return toResult(range ?? within, by, clients, await runReport(hasSums(window)))
    }
    if (!options.follow) return read()
    await follow(context.signal, PAUSE_MS, async () => {
      const { json, lines } = await read()
      if (stdout.isTTY && !options.json) stdout.write(CLEAR)
      for (const line of options.json ? [JSON.stringify(json)] : lines) printLine(line, stdout)
    })
    return { lines: [] }
  })
}

const ONLY_SUMS =
  'Allowed requests are only added up: these are the requests that were refused, denied, or would be refused.'

function toResult(window: TimeRange | string, by: TopOptions['by'], clients: readonly TopClient[], onlySums: boolean) {
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
  const words = typeof window === 'string' ? `within ${window}` : rangeText(window)
  const json = typeof window === 'string' ? { within: window } : rangeJson(window)
  const none =
    by === 'refused'
      ? `No refused request ${words}: see --by requests.`
      : `No request ${onlySums ? 'of a client ' : ''}${words}.`
  const lines = clients.length === 0 ? [none] : table
  return {
    json: { ...json, ...(onlySums && { only_sums: true }), clients },
    lines: onlySums ? [...lines, '', ONLY_SUMS] : lines,
  }
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
