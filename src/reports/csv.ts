import type { ListedEvent } from './listed-events.js'
import type { Offender } from './ranking.js'
import { clampedIsoTime } from './report.js'
import type { TopClient } from './top-clients.js'

/** The most rows of an export, unless another number is given. */
export const CSV_LIMIT = 1000

/** Matches the start of a cell that a spreadsheet takes for a formula; some take the full-width forms of `= + - @` too. */
const FORMULA = /^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/
/** Includes the separators and quotes of spreadsheets in other regions and settings. */
const NEEDS_QUOTES = /["',;\t\r\n]/

/**
 * Returns one line of CSV by RFC 4180, CRLF included. A text that a spreadsheet would run gets a `'` in front: clients
 * write the keys, and people with rights open the file.
 *
 * @param cells only the first may be a client's text: a spreadsheet that separates cells by `;` honours quotes at the
 * start of a line only
 */
export function csvRow(cells: readonly (string | number)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(cell: string | number): string {
  if (typeof cell === 'number') return String(cell)
  const text = FORMULA.test(cell) ? `'${cell}` : cell
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Yields the offenders as CSV, line by line, so that a server can stream them. */
export function* offendersCsvRows(offenders: Iterable<Offender>): Generator<string, void, undefined> {
  yield csvRow(['key', 'blocked_count'])
  for (const { key, blocked_count } of offenders) yield csvRow([key, blocked_count])
}

/** Yields clients as CSV, line by line: each outcome has a column of its own. */
export function* clientsCsvRows(clients: Iterable<TopClient>): Generator<string, void, undefined> {
  yield csvRow(['client', 'requests', 'over_limit', 'would_be', 'denied'])
  for (const { client, requests, over_limit, would_be, denied } of clients) {
    yield csvRow([client, requests, over_limit, would_be, denied])
  }
}

/** Matches where a spreadsheet that separates cells by `;` or tabs would begin one that it takes for a formula. */
const INNER_FORMULA = /([;\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g

/** The columns of an export of events. */
export const EVENT_COLUMNS = csvRow([
  'time',
  'client',
  'method',
  'path',
  'outcome',
  'policy',
  'count',
  'limit',
  'key',
  'weight',
])

/** Returns an event as a line of CSV. Several of its cells are texts of clients, so none may begin a formula inside. */
export function eventCsvRow(event: ListedEvent) {
  const { timestampMs, client, method, path, outcome, policy, key, weight } = event
  const [safeClient = '', safeMethod = '', safePath = '', safePolicy = '', safeKey = ''] = [
    client,
    method,
    path,
    policy,
    key,
  ].map((text) => text.replace(INNER_FORMULA, "$1'"))
  const time = clampedIsoTime(timestampMs)
  const [count, limit] = [Number(event.count), Number(event.limit)]
  return csvRow([time, safeClient, safeMethod, safePath, outcome, safePolicy, count, limit, safeKey, weight])
}
