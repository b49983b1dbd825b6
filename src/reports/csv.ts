import type { Offender } from './ranking.js'
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
