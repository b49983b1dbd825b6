import { isIP } from 'node:net'
import type { Database } from '../../src/database/database.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { type AppliedRule, parseAppliedRules } from '../../src/log/applied-rules.js'
import type { TrafficCounts } from '../../src/reports/breakdown.js'
import type { ClientCounts } from '../../src/reports/client-counts.js'
import type { ReportFilter } from '../../src/reports/filter.js'

/** One event as a report sees it. */
export interface PlainEvent {
  readonly atMs: number
  readonly key: string
  readonly rule_name: string
  readonly path: string
  readonly method: string
  readonly blocked: boolean
  readonly would_block: boolean
  readonly denied: boolean
  readonly unavailable: boolean
  readonly client: string
  readonly policy: string
  /** The rules that applied beside the deciding one, and whether each refused. */
  readonly beside: readonly AppliedRule[]
}

interface Row extends Omit<PlainEvent, 'blocked' | 'would_block' | 'denied' | 'unavailable' | 'atMs' | 'beside'> {
  readonly at: number | string
  readonly blocked: number
  readonly would_block: number
  readonly denied: number
  readonly outcome: string
  readonly rules: string
  readonly weight: number
}

/** Every request of the log, without any rollup: a row is as many as it weighs. */
export async function readEvents({ log: database }: Database): Promise<PlainEvent[]> {
  const rows = await database.query<Row>(
    `SELECT "timestamp" AS at, key, rule_name, path, method, client, policy, outcome, rules, weight, CASE WHEN allowed = false AND outcome <> 'denied' THEN 1 ELSE 0 END AS blocked,
       CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END AS denied,
       CASE WHEN allowed <> false AND (outcome = 'over_limit' OR (outcome = '' AND count > "limit")) THEN 1 ELSE 0 END AS would_block
     FROM ${database.dialect.table('rate_limit_event')}`,
  )
  return rows.flatMap((row) => Array<PlainEvent>(row.weight).fill(toEvent(row)))
}

function toEvent(row: Row): PlainEvent {
  return {
    // A value that is no time sorts after all times.
    atMs: typeof row.at === 'number' ? Math.min(row.at, Number.MAX_VALUE) : Number.MAX_VALUE,
    key: row.key,
    rule_name: row.rule_name,
    path: row.path,
    method: row.method,
    blocked: row.blocked === 1,
    would_block: row.would_block === 1,
    denied: row.denied === 1,
    unavailable: row.blocked === 1 && row.outcome === 'unavailable',
    client: row.client || clientOf(row.key),
    policy: row.policy || row.rule_name || 'default',
    beside: parseAppliedRules(row.rules).filter(({ name }) => name !== row.rule_name),
  }
}

/** The client of a row without one, as far as its key says. */
function clientOf(key: string): string {
  const [, shown = key] = /^rule:[^:]+:(.*)$/s.exec(key) ?? []
  if (/^(?:ip|user):/.test(shown)) return shown
  return shown !== key && isIP(shown) !== 0 ? `ip:${shown}` : ''
}

/** The plain recount of what lies in a window, and passes a filter. */
export class Recount {
  readonly events: readonly PlainEvent[]

  constructor(events: readonly PlainEvent[], startMs: number, endMs: number, filter: ReportFilter = {}) {
    this.events = events.filter(
      (event) =>
        event.atMs >= startMs &&
        event.atMs < endMs &&
        (filter.rule === undefined || hasRule(event, filter.rule)) &&
        (filter.method === undefined || event.method === filter.method) &&
        (filter.key === undefined || event.key === filter.key) &&
        (filter.path === undefined || event.path.startsWith(filter.path)),
    )
  }

  static ofWindow(events: readonly PlainEvent[], days: number, nowMs: number, filter?: ReportFilter): Recount {
    // Up to the end of the hour in an hour: clocks differ.
    const endMs = (Math.floor(nowMs / HOUR_MS) + 2) * HOUR_MS
    return new Recount(events, Math.max(0, nowMs - days * DAY_MS), endMs, filter)
  }

  static ofWindowBefore(events: readonly PlainEvent[], days: number, nowMs: number, filter?: ReportFilter): Recount {
    return new Recount(events, Math.max(0, nowMs - 2 * days * DAY_MS), Math.max(0, nowMs - days * DAY_MS), filter)
  }

  counts() {
    return countsOf(this.events)
  }

  /** Returns the number of requests that limits and denials refused. */
  refusals() {
    const { over_limit, denied } = clientCountsOf(this.events)
    return { over_limit, denied }
  }

  summary(days: number) {
    const { total, blocked, denied } = this.counts()
    return { days, total, allowed: total - blocked, blocked, block_rate: total === 0 ? 0 : blocked / total, denied }
  }

  /** The summary of the dashboard, which has all outcomes. */
  outcomes(days: number) {
    return { ...this.summary(days), would_block: this.counts().would_block }
  }

  /** Most first, then by bytes. */
  by(
    sampleFile: (event: PlainEvent) => string,
    measure: (counts: TrafficCounts) => number = ({ total, denied }) => total + denied,
  ) {
    return [...groupBy(this.events, sampleFile)]
      .map(([name, events]) => ({ name, ...countsOf(events) }))
      .filter((counts) => measure(counts) > 0)
      .toSorted((one, other) => measure(other) - measure(one) || compareBytes(one.name, other.name))
  }

  /** Counts each rule that applied to a request; `blocked` are the requests that it refused. */
  byRule(rule?: string, measure?: (counts: TrafficCounts) => number) {
    const views = this.events.flatMap((event) => [
      event,
      ...event.beside.map(({ name, isRefused }) => ({
        ...event,
        rule_name: name,
        blocked: isRefused,
        would_block: false,
      })),
    ])
    const ofRule = views.filter(({ rule_name }) => rule === undefined || rule_name === rule)
    return new Recount(ofRule, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY).by(
      ({ rule_name }) => rule_name,
      measure,
    )
  }

  ruleHits(limit: number, rule?: string) {
    return this.byRule(rule, ({ total }) => total)
      .filter(({ name }) => name !== '')
      .slice(0, limit)
      .map(({ name, total, blocked }) => ({ rule_name: name, hits: total, blocked }))
  }

  clients(by: 'refused' | 'requests', limit: number) {
    const measure = (counts: ClientCounts) => (by === 'requests' ? counts.requests : counts.over_limit + counts.denied)
    return [...groupBy(this.events, ({ client }) => client)]
      .filter(([client]) => client !== '')
      .map(([client, events]) => ({ client, events, counts: clientCountsOf(events) }))
      .filter(({ counts }) => measure(counts) > 0)
      .toSorted((one, other) => measure(other.counts) - measure(one.counts) || compareBytes(one.client, other.client))
      .slice(0, limit)
      .map(({ client, events, counts }) => ({
        client,
        ...counts,
        policies: [...groupBy(events, ({ policy }) => policy)]
          .map(([policy, its]) => ({ policy, ...clientCountsOf(its) }))
          .toSorted((one, other) => other.requests - one.requests || compareBytes(one.policy, other.policy)),
      }))
  }

  offenders(limit: number, atLeast = 1) {
    return this.by(({ key }) => key)
      .map(({ name, blocked }) => ({ key: name, blocked_count: blocked }))
      .filter(({ blocked_count }) => blocked_count >= atLeast)
      .toSorted((one, other) => other.blocked_count - one.blocked_count || compareBytes(one.key, other.key))
      .slice(0, limit)
  }
}

function hasRule({ rule_name, beside }: PlainEvent, rule: string): boolean {
  return rule_name === rule || beside.some(({ name }) => name === rule)
}

function groupBy(events: readonly PlainEvent[], sampleFile: (event: PlainEvent) => string): Map<string, PlainEvent[]> {
  const groups = new Map<string, PlainEvent[]>()
  for (const event of events) {
    const name = sampleFile(event)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [event])
    else group.push(event)
  }
  return groups
}

export function clientCountsOf(events: readonly PlainEvent[]): ClientCounts {
  const counts = { requests: events.length, over_limit: 0, would_be: 0, denied: 0 }
  for (const { blocked, unavailable, would_block, denied } of events) {
    if (blocked && !unavailable) counts.over_limit++
    if (would_block) counts.would_be++
    if (denied) counts.denied++
  }
  return counts
}

function countsOf(events: readonly PlainEvent[]) {
  const counts = { total: 0, blocked: 0, would_block: 0, denied: 0 }
  for (const { blocked, would_block, denied } of events) {
    // A denial is part of no total.
    if (denied) counts.denied++
    else counts.total++
    if (blocked) counts.blocked++
    if (would_block) counts.would_block++
  }
  return counts
}

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
