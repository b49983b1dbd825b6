/** Reads rules a page at a time, as a search, filters and an order choose them. */
import type { Database } from '../../../database/database.js'
import { type Dialect, selectedColumns, toColumn } from '../../../database/dialect.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { parseRate } from '../../../limiter/rate.js'
import { NO_TRAFFIC } from '../../../reports/breakdown.js'
import { Parameters } from '../../../reports/filter.js'
import type { RuleActivity } from '../../../reports/rule-traffic.js'
import { fieldEntries } from '../../../rules/description.js'
import { MAX_GROUPS } from '../../../rules/group.js'
import { RULES } from '../../../rules/rule.js'
import { whyLeftOut } from '../../../rules/unmet-needs.js'

/** A row of the rule table, as far as the list shows it. Moments are milliseconds since the epoch. */
export interface ListedRule {
  readonly id: number
  readonly name: string
  readonly pathPattern: string
  readonly method: string
  readonly condition: string
  readonly rate: string
  readonly unit: string
  readonly group: string
  readonly priority: number
  readonly isActive: boolean | number
  readonly block: boolean | number
  readonly createdAt: number
  readonly startsAt: number | null
  readonly endsAt: number | null
  /** Why servers leave the rule out; undefined where they do not. */
  readonly leftOut?: string | undefined
}

const LISTED_FIELDS = [
  'id',
  'name',
  'pathPattern',
  'method',
  'condition',
  'rate',
  'unit',
  'group',
  'priority',
  'isActive',
  'block',
  'createdAt',
  'startsAt',
  'endsAt',
] as const satisfies (keyof ListedRule)[]

export const RULE_STATES = ['on', 'off', 'in-force', 'not-yet', 'over'] as const
export const RULE_EFFECTS = ['blocks', 'counts'] as const
/** The columns by which the list can be ordered; without one it has the order in which rules are tried. */
export const RULE_ORDERS = [
  'name',
  'pathPattern',
  'rate',
  'group',
  'priority',
  'isActive',
  'matched',
  'refused',
] as const
export type RuleOrder = (typeof RULE_ORDERS)[number]

/** The filter of the list, and its order. */
export interface RuleListing {
  /** A part of a name, a note, a pattern or a condition, in any case; empty for all. */
  readonly text: string
  /** The state; undefined for all. */
  readonly state: (typeof RULE_STATES)[number] | undefined
  /** The effect; undefined for all. */
  readonly effect: (typeof RULE_EFFECTS)[number] | undefined
  /** The group, empty for the one without a name; undefined for all. */
  readonly group: string | undefined
  /** The order; undefined for that in which rules are tried. */
  readonly order: RuleOrder | undefined
  readonly isDescending: boolean
}

export interface RulePage {
  readonly rules: readonly ListedRule[]
  /** The number of all rules, and of those that the search and the filters leave. */
  readonly total: number
  readonly found: number
  /** The groups that have a name. */
  readonly groups: readonly string[]
  /** The number of the page, of so many. */
  readonly number: number
  readonly pageCount: number
}

/** The table of rules, and what their conditions may ask. */
type RuleTable = Pick<Database, 'query' | 'dialect'> & Partial<Pick<Database, 'sources'>>

function withLeftOut(rules: readonly ListedRule[], sources: Database['sources']): ListedRule[] {
  return rules.map((rule) => ({ ...rule, leftOut: whyLeftOut(rule.condition, sources) }))
}

/** Rules per page: some milliseconds of work. */
const PAGE_SIZE = 200

/** Returns whether a listing leaves rules out. */
export function isNarrowed({ text, state, effect, group }: RuleListing): boolean {
  return text !== '' || state !== undefined || effect !== undefined || group !== undefined
}

/**
 * Reads one page.
 *
 * @param requested the number of the page: the nearest one is read
 */
export async function listRules(
  { query, dialect, sources }: RuleTable,
  listing: RuleListing,
  requested: number,
  activity: RuleActivity,
  nowMs: number,
): Promise<RulePage> {
  const table = dialect.table(RULES.table)
  const parameters = new Parameters()
  const condition = listedSql(dialect, listing, parameters, nowMs)
  const [counts = { total: 0, found: 0 }] = await query<{ total: number; found: number }>(
    `SELECT COUNT(*) AS total, COUNT(*) FILTER (WHERE ${condition}) AS found FROM ${table}`,
    parameters.values,
  )
  const groups = await query<{ name: string }>(
    `SELECT DISTINCT group_name AS name FROM ${table} WHERE group_name <> '' ORDER BY name LIMIT ${MAX_GROUPS}`,
  )
  const pageCount = Math.max(1, Math.ceil(counts.found / PAGE_SIZE))
  const number = Math.min(Math.max(requested, 1), pageCount)
  const skipped = (number - 1) * PAGE_SIZE
  const select = `SELECT ${selectedColumns(LISTED_FIELDS)} FROM ${table}`
  const page = { ...counts, groups: groups.map(({ name }) => String(name)), number, pageCount }
  const rankOf = listing.order === undefined ? undefined : computedOrders(activity)[listing.order]
  if (rankOf === undefined) {
    const order = columnOrder(dialect, listing)
    const sql = `${select} WHERE ${condition} ORDER BY ${order} LIMIT ${PAGE_SIZE} OFFSET ${skipped}`
    return { ...page, rules: withLeftOut(await query<ListedRule>(sql, parameters.values), sources) }
  }
  const [row] = await query<{ found: string | null }>(
    `SELECT ${dialect.rowsAsJson('id, name, rate')} AS found
     FROM (SELECT id, name, rate FROM ${table} WHERE ${condition} ORDER BY ${priorityOrder(dialect)}) AS ordered`,
    parameters.values,
  )
  const ids = ordered(JSON.parse(row?.found ?? '[]'), rankOf, listing.isDescending).slice(skipped, skipped + PAGE_SIZE)
  const rules = await query<ListedRule>(`${select} WHERE ${dialect.isOneOf('id', '$1', 'bigint')}`, [
    JSON.stringify(ids),
  ])
  const positions = new Map(ids.map((id, index) => [id, index]))
  const positionOf = ({ id }: ListedRule) => positions.get(id) ?? 0
  const sorted = rules.toSorted((one, other) => positionOf(one) - positionOf(other))
  return { ...page, rules: withLeftOut(sorted, sources) }
}

/** The rules that a text may mean. */
export interface FoundRules {
  readonly rules: readonly ListedRule[]
  /** The number of all of them. */
  readonly count: number
}

/**
 * Finds rules as the search of the list does: the one of that name first, then in the order in which rules are tried.
 *
 * @param limit the most rules to return
 */
export async function findRules(
  { query, dialect, sources }: RuleTable,
  text: string,
  limit: number,
): Promise<FoundRules> {
  const parameters = new Parameters()
  const listing = { text, state: undefined, effect: undefined, group: undefined, order: undefined, isDescending: false }
  const condition = listedSql(dialect, listing, parameters, 0)
  const isNamed = `lower(name) = ${parameters.add(storable(text, MAX_KEY_LENGTH).toLowerCase())}`
  const rows = await query<ListedRule & { readonly found: number }>(
    `SELECT ${selectedColumns(LISTED_FIELDS)}, COUNT(*) OVER () AS found FROM ${dialect.table(RULES.table)}
     WHERE ${condition} ORDER BY CASE WHEN ${isNamed} THEN 0 ELSE 1 END, ${priorityOrder(dialect)} LIMIT ${limit}`,
    parameters.values,
  )
  return { rules: withLeftOut(rows, sources), count: rows[0]?.found ?? 0 }
}

/** Returns the condition of the rules that are listed. */
export function listedSql(
  dialect: Dialect,
  { text, state, effect, group }: RuleListing,
  parameters: Parameters,
  nowMs: number,
): string {
  const conditions = ['true']
  if (text !== '') {
    const pattern = `%${storable(text, MAX_KEY_LENGTH)
      .toLowerCase()
      .replace(/[\\%_]/g, '\\$&')}%`
    const placeholder = parameters.add(pattern)
    const searched = fieldEntries(RULES.fields).flatMap(([name, { panel }]) => (panel.searched ? [toColumn(name)] : []))
    conditions.push(`(${searched.map((column) => `lower(${column}) LIKE ${placeholder} ESCAPE '\\'`).join(' OR ')})`)
  }
  if (effect !== undefined) conditions.push(effect === 'blocks' ? 'block' : 'NOT block')
  if (group !== undefined) conditions.push(`group_name = ${parameters.add(group)}`)
  if (state === 'off') conditions.push('NOT is_active')
  else if (state !== undefined) conditions.push('is_active')
  if (state === 'in-force' || state === 'not-yet' || state === 'over') {
    const now = dialect.whole(parameters.add(nowMs))
    const begins = `(starts_at IS NULL OR ${dialect.toMs('starts_at')} <= ${now})`
    const lasts = `(ends_at IS NULL OR ${dialect.toMs('ends_at')} > ${now})`
    conditions.push(
      { 'in-force': `${begins} AND ${lasts}`, 'not-yet': `NOT ${begins} AND ${lasts}`, over: `NOT ${lasts}` }[state],
    )
  }
  return conditions.join(' AND ')
}

/** Returns the order of rules as the API lists them, too: by priority, the highest first, then by name. */
function priorityOrder({ bytewise }: Dialect): string {
  return `priority DESC, ${bytewise('name')}`
}

function columnOrder(dialect: Dialect, { order, isDescending }: RuleListing): string {
  if (order === undefined) return priorityOrder(dialect)
  const column = toColumn(order)
  const isText = RULES.fields[order as keyof typeof RULES.fields]?.kind === 'text'
  return `${isText ? dialect.bytewise(column) : column}${isDescending ? ' DESC' : ''}, ${priorityOrder(dialect)}`
}

type ComputedOrder = (name: string, rate: string) => number

/** Returns the orders that the table has no column for. */
function computedOrders({ today }: RuleActivity): Partial<Record<RuleOrder, ComputedOrder>> {
  return {
    matched: (name) => (today.get(name) ?? NO_TRAFFIC).total,
    refused: (name) => (today.get(name) ?? NO_TRAFFIC).blocked,
    rate: (_, rate) => requestsPerMs(rate),
  }
}

/** Returns the requests that a rate lets through over time; 0 for what raw SQL wrote. */
function requestsPerMs(rate: string): number {
  try {
    const { limit, periodMs, windows = [{ limit, periodMs }] } = parseRate(rate)
    return Math.min(...windows.map((window) => window.limit / window.periodMs))
  } catch {
    return 0
  }
}

type FoundRule = readonly [id: number, name: string, rate: string]

function ordered(found: readonly FoundRule[], rankOf: ComputedOrder, isDescending: boolean): number[] {
  const sign = isDescending ? -1 : 1
  return found
    .map(([id, name, rate]): readonly [number, number] => [id, rankOf(name, rate)])
    .sort(([, one], [, other]) => sign * (one - other))
    .map(([id]) => id)
}
