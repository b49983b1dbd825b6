import type { Dialect } from '../database/dialect.js'
import type { Parameters } from '../database/list.js'
import { CLIENT, hasApplied } from '../log/event-sql.js'

/** The events that a report includes. An undefined field excludes none. */
export interface ReportFilter {
  /** A rule that applied, by its name; empty for requests about which no rule decided. */
  readonly rule?: string | undefined
  /** The beginning of the path. */
  readonly path?: string | undefined
  readonly method?: string | undefined
  /** A client in any spelling, a network, or a key of the log. */
  readonly key?: string | undefined
}

/** A filter whose client is found, where the text is not one key's own spelling. */
export interface EventFilter extends ReportFilter {
  readonly found?: FoundClients | undefined
}

/** The clients that a text means, in JSON, since every statement of a page has them. */
interface FoundClients {
  readonly clients: string
  /** The keys under which the log may have them; undefined where these are too many to be looked up. */
  readonly keys: string | undefined
}

/** Returns whether the filter excludes anything. */
export function isFiltering(filter: ReportFilter): boolean {
  return Object.values(filter).some((value) => value !== undefined)
}

/** Returns the condition that a column is in a range, whose end is exclusive. */
export function inRange(
  column: string,
  { from, to }: { readonly from: number; readonly to: number },
  parameters: Parameters,
): string {
  return `${column} >= ${parameters.add(from)} AND ${column} < ${parameters.add(to)}`
}

/** The number of values above which they are read as a range. */
const MAX_VALUES = 500

/**
 * Returns the condition that a column is in a range, as a lookup of each value: rows of many other keys lie between
 * those of one key.
 */
export function oneByOne(
  dialect: Dialect,
  column: string,
  range: { readonly from: number; readonly to: number },
  parameters: Parameters,
): string {
  const { from, to } = range
  if (to - from > MAX_VALUES) return inRange(column, range, parameters)
  const values = Array.from({ length: to - from }, (_, index) => from + index)
  return dialect.isOneOf(column, parameters.add(JSON.stringify(values)), 'bigint')
}

/** Returns the condition that a row of a rollup passes the filter: begins with AND, or is empty. */
export function filteredSums({ rule, path, method }: ReportFilter, parameters: Parameters): string {
  const conditions: string[] = []
  if (rule !== undefined) conditions.push(`rule_name = ${parameters.add(rule)}`)
  // Counts whole characters, as both databases do.
  if (path !== undefined) conditions.push(`substr(path, 1, ${[...path].length}) = ${parameters.add(path)}`)
  if (method !== undefined) conditions.push(`method = ${parameters.add(method)}`)
  return conditions.map((condition) => ` AND ${condition}`).join('')
}

/** Returns the condition that an event passes the filter: begins with AND, or is empty. */
export function filtered(
  dialect: Dialect,
  { rule, path, method, key, found }: EventFilter,
  parameters: Parameters,
): string {
  const conditions: string[] = []
  if (rule !== undefined) {
    const name = parameters.add(rule)
    conditions.push(`(rule_name = ${name} OR ${hasApplied(dialect, name)})`)
  }
  if (found !== undefined) {
    if (found.keys !== undefined) conditions.push(dialect.isOneOf('key', parameters.add(found.keys), 'text'))
    const isClient = dialect.isOneOf(`(${CLIENT})`, parameters.add(found.clients), 'text')
    conditions.push(`(${isClient} OR key = ${parameters.add(key ?? '')})`)
  } else if (key !== undefined) conditions.push(`key = ${parameters.add(key)}`)
  return filteredSums({ path, method }, parameters) + conditions.map((condition) => ` AND ${condition}`).join('')
}
