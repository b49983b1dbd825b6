/** Reads rules a page at a time, as a search, filters and an order choose them. */
import type { Database } from '../../../database/database.js'
import { type Dialect, selectedColumns, toColumn } from '../../../database/dialect.js'
import { orderBy, Parameters } from '../../../database/list.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { parseRate } from '../../../limiter/rate.js'
import { NO_TRAFFIC } from '../../../reports/breakdown.js'
import type { RuleActivity } from '../../../reports/rule-traffic.js'
import { fieldEntries } from '../../../rules/description.js'
import { MAX_GROUPS } from '../../../rules/group.js'
import { RULES, ruleOrder } from '../../../rules/rule.js'
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
  table: RuleTable,
  listing: RuleListing,
  requested: number,
  activity: RuleActivity,
  nowMs: number,
): Promise<RulePage> {
  const { query, dialect } = table
  const name = dialect.table(RULES.table)
  const [count] = await query<{ total: number }>(`SELECT COUNT(*) AS total FROM ${name}`)
  const groups = await query<{ name: string }>(
    `SELECT DISTINCT group_name AS name FROM ${name} WHERE group_name <> '' ORDER BY name LIMIT ${MAX_GROUPS}`,
  )
  const parameters = new Parameters()
  const condition = listedSql(dialect, listing, parameters, nowMs)
  const found = await readFound(table, `WHERE ${condition} ${columnOrder(dialect, listing)}`, parameters)
  const rankOf = listing.order === undefined ? undefined : computedOrders(activity)[listing.order]
  const ids = rankOf === undefined ? found.map(([id]) => id) : ordered(found, rankOf, listing.isDescending)
  const pageCount = Math.max(1, Math.ceil(ids.length / PAGE_SIZE))
  const number = Math.min(Math.max(requested, 1), pageCount)
  return {
    rules: await readListed(table, ids.slice((number - 1) * PAGE_SIZE, number * PAGE_SIZE)),
    total: count?.total ?? 0,
    found: ids.length,
    groups: groups.map(({ name }) => String(name)),
    number,
    pageCount,
  }
}

/** Reads all rules that are found, in their order, as far as other orders need them. */
async function readFound({ query, dialect }: RuleTable, rest: string, { values }: Parameters): Promise<FoundRule[]> {
  const [row] = await query<{ found: string | null }>(
    `SELECT ${dialect.rowsAsJson('id, name, rate')} AS found FROM (
       SELECT id, CAST(name AS text) AS name, CAST(rate AS text) AS rate FROM ${dialect.table(RULES.table)} ${rest}) AS ordered`,
    values,
  )
  return JSON.parse(row?.found ?? '[]')
}

/** Reads rules in the order of their ids here. */
async function readListed({ query, dialect, sources }: RuleTable, ids: readonly number[]): Promise<ListedRule[]> {
  const rules = await query<ListedRule>(
    `SELECT ${selectedColumns(LISTED_FIELDS)} FROM ${dialect.table(RULES.table)} WHERE ${dialect.isOneOf('id', '$1', 'bigint')}`,
    [JSON.stringify(ids)],
  )
  const byId = new Map(rules.map((rule) => [rule.id, rule]))
  return ids.flatMap((id) => {
    const rule = byId.get(id)
    return rule === undefined ? [] : [{ ...rule, leftOut: whyLeftOut(rule.condition, sources) }]
  })
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
export async function findRules(table: RuleTable, text: string, limit: number): Promise<FoundRules> {
  const { dialect } = table
  const parameters = new Parameters()
  const listing = { text, state: undefined, effect: undefined, group: undefined, order: undefined, isDescending: false }
  const condition = listedSql(dialect, listing, parameters, 0)
  const isNamed = `lower(name) = ${parameters.add(storable(text, MAX_KEY_LENGTH).toLowerCase())}`
  const order = orderBy([{ sql: `CASE WHEN ${isNamed} THEN 0 ELSE 1 END`, kind: 'whole' }, ...ruleOrder(dialect)])
  const ids = (await readFound(table, `WHERE ${condition} ${order}`, parameters)).map(([id]) => id)
  return { rules: await readListed(table, ids.slice(0, limit)), count: ids.length }
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

function columnOrder(dialect: Dialect, { order, isDescending }: RuleListing): string {
  if (order === undefined || order === 'matched' || order === 'refused' || order === 'rate')
    return orderBy(ruleOrder(dialect))
  const kind = RULES.fields[order].kind === 'text' ? 'text' : 'whole'
  const column = toColumn(order)
  const sql = kind === 'text' ? dialect.bytewise(column) : column
  return orderBy([{ sql, kind, isDescending }, ...ruleOrder(dialect)])
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
