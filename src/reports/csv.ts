import type { ListedEvent } from './listed-events.js'
import { clampedIsoTime } from './report.js'

/** The most rows of an export, unless another number is given. */
export const CSV_LIMIT = 1000

/** Matches the start of a cell that a spreadsheet takes for a formula; some take the full-width forms of `= + - @` too. */
const FORMULA = /^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/
/** Includes the separators and quotes of spreadsheets in other regions and settings. */
const NEEDS_QUOTES = /["',;\t\r\n]/

/** Matches where a spreadsheet that separates cells by `;` or tabs would begin one that it takes for a formula. */
const INNER_FORMULA = /([;\t\r\n]"*)(?=[=+\-@\uff1d\uff0b\uff0d\uff20])/g

/**
 * Returns one line of CSV by RFC 4180, CRLF included. A text that a spreadsheet would run gets a `'` in front: clients
 * write the keys, and people with rights open the file. A spreadsheet that separates cells by `;` honours quotes at the
 * start of a line only, so no text after the first may begin a formula inside.
 */
export function csvRow(cells: readonly (string | number)[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(cell: string | number, index: number): string {
  if (typeof cell === 'number') return String(cell)
  const safe = index === 0 ? cell : cell.replace(INNER_FORMULA, "$1'")
  const text = FORMULA.test(safe) ? `'${safe}` : safe
  return NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Yields the rows of a list as CSV with the columns of its registration, line by line, so that a server can stream them. */
export function* csvRows<Column extends string>(
  { asked: { columns = [] } }: { readonly asked: { readonly columns?: readonly Column[] } },
  rows: Iterable<Readonly<Record<Column, string | number | null>>>,
): Generator<string, void, undefined> {
  yield csvRow(columns)
  for (const row of rows) yield csvRow(columns.map((column) => row[column] ?? ''))
}

/** The columns of an export of events. */
export const EVENT_COLUMNS = csvRow('time client method path outcome policy count limit key weight'.split(' '))

/** Returns an event as a line of CSV. */
export function eventCsvRow({
  timestampMs,
  client,
  method,
  path,
  outcome,
  policy,
  key,
  weight,
  ...event
}: ListedEvent) {
  const [count, limit] = [Number(event.count), Number(event.limit)]
  return csvRow([clampedIsoTime(timestampMs), client, method, path, outcome, policy, count, limit, key, weight])
}
