/** The traffic of rules: several may apply to one request. */
import { BESIDE, besideRows, countedRequests, IS_REFUSED_BESIDE } from '../log/event-sql.js'
import { busiest, type TrafficCounts } from './breakdown.js'
import { type EventFilter, filtered, filteredSums, inRange } from './filter.js'
import { ALL_EVENTS, conditionFor, readSplit } from './logged-events.js'
import type { Period } from './period.js'
import { report } from './registration.js'
import type { LogSnapshot, RankingOptions, Report } from './report.js'
import { windowFor } from './report-window.js'
import { readTraffic, SUMS, splitFor, type Traffic } from './traffic.js'

/** The requests to which a rule applied: `blocked` are those that the rule refused. */
export interface RuleTraffic extends TrafficCounts {
  /** The rule; empty for requests about which none decided. */
  readonly rule_name: string
}

/** Reads the traffic of a period by rule: a request counts for each rule that applied. */
export async function readRuleTraffic(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter = {},
): Promise<readonly RuleTraffic[]> {
  return toRuleTraffic(
    filter,
    await Promise.all([readTraffic(snapshot, period, filter), readBeside(snapshot, period, filter)]),
  )
}

/** Returns the traffic by rule, of what `readTraffic` and `readBeside` have read. */
export function toRuleTraffic(
  { rule }: EventFilter,
  [decided, beside]: readonly [readonly Traffic[], readonly RuleTraffic[]],
): RuleTraffic[] {
  return [...decided, ...beside].filter(({ rule_name }) => rule === undefined || rule_name === rule)
}

/** Reads the requests to which rules applied beside the one that decided. */
export async function readBeside(
  snapshot: LogSnapshot,
  period: Period,
  filter: EventFilter,
): Promise<readonly RuleTraffic[]> {
  const { dialect } = snapshot
  const table = dialect.table('rate_limit_event')
  const split = splitFor(snapshot, filter, period, filter.path === undefined)
  return readSplit<RuleTraffic>(snapshot, split, {
    buckets: (ranges, parameters) =>
      ranges.map(
        (range) =>
          `SELECT rule_name, total, refused AS blocked, 0 AS would_block, 0 AS denied
           FROM ${dialect.table('rate_limit_rule_rollup')}
           WHERE span = ${range.span} AND ${inRange('bucket', range, parameters)}${filteredSums(filter, parameters)}`,
      ),
    events: (logged, parameters) =>
      logged(parameters, { ...ALL_EVENTS, during: conditionFor(ALL_EVENTS, filter) }).map(({ where, sign }) => {
        const counted = (condition: string) => countedRequests(`${condition} AND outcome <> 'denied'`, sign)
        return `SELECT ${BESIDE} AS rule_name, ${counted('true')} AS total, ${counted(IS_REFUSED_BESIDE)} AS blocked,
          0 AS would_block, 0 AS denied
          FROM ${besideRows(dialect, table, where + filtered(dialect, filter, parameters))}`
      }),
    select: (beside) => `SELECT rule_name, ${SUMS} FROM (${beside}) AS beside GROUP BY rule_name`,
  })
}

export interface RuleHitCount {
  readonly rule_name: string
  readonly hits: number
  readonly blocked: number
}

/** Reports how often each rule applied, and how often it refused, the busiest first. */
export const ruleHitCounts = report<RankingOptions, readonly RuleHitCount[]>()({
  name: 'listRuleHits',
  summary: 'Count how often each rule applied',
  window: 7,
  limit: 50,
  answer: ({ texts, counts }) => ({ ...texts('rule_name'), ...counts('hits', 'blocked') }),
  columns: ['rule_name', 'hits', 'blocked'],
  read: async ({ window, limit }, snapshot) =>
    toRuleHits(await readRuleTraffic(snapshot, windowFor(window, snapshot.nowMs)), limit),
})

export function toRuleHits(traffic: readonly RuleTraffic[], limit: number): RuleHitCount[] {
  const matched = traffic.filter(({ rule_name }) => rule_name !== '')
  return busiest(matched, ({ rule_name }) => rule_name)
    .slice(0, limit)
    .map(({ name, total, blocked }) => ({ rule_name: name, hits: total, blocked }))
}

/** The requests of each rule in the last day, and the rules that applied to any in the last week. */
export interface RuleActivity {
  /** The traffic of the last 24 hours, by the rule's name; empty for requests about which no rule decided. */
  readonly today: ReadonlyMap<string, TrafficCounts>
  /** The rules that applied to a request in the last 7 days. */
  readonly active: ReadonlySet<string>
}

const WEEK_DAYS = 7

/** Reports what rules do, for the list of all rules. */
export function ruleActivity(): Report<RuleActivity> {
  return async (snapshot) => {
    const [today, week] = await Promise.all([
      readRuleTraffic(snapshot, windowFor({ days: 1 }, snapshot.nowMs)),
      readRuleTraffic(snapshot, windowFor({ days: WEEK_DAYS }, snapshot.nowMs)),
    ])
    return {
      today: new Map(busiest(today, ({ rule_name }) => rule_name).map((share) => [share.name, share])),
      active: new Set(week.map(({ rule_name }) => rule_name)),
    }
  }
}
