import { isIP } from 'node:net'
import type { TrafficCounts } from '../../src/analytics/breakdown.js'
import type { ClientCounts } from '../../src/analytics/client-counts.js'
import type { ReportFilter } from '../../src/analytics/filter.js'
import type { Database } from '../../src/db/database.js'
import { DAY_MS } from '../../src/time/clock.js'

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
}

interface Row extends Omit<PlainEvent, 'blocked' | 'would_block' | 'denied' | 'unavailable' | 'atMs'> {
  readonly at: number | string
  readonly blocked: number
  readonly would_block: number
  readonly denied: number
  readonly outcome: string
}

/** Every event of a database, without any rollup. */
export async function readEvents(database: Database): Promise<PlainEvent[]> {
  const rows = await database.query<Row>(
    `SELECT "timestamp" AS at, key, rule_name, path, method, client, policy, outcome, CASE WHEN allowed = false AND outcome <> 'denied' THEN 1 ELSE 0 END AS blocked,
       CASE WHEN outcome = 'denied' THEN 1 ELSE 0 END AS denied,
       CASE WHEN allowed <> false AND (outcome = 'over_limit' OR (outcome = '' AND count > "limit")) THEN 1 ELSE 0 END AS would_block
     FROM ${database.dialect.table('rate_limit_event')}`,
  )
  return rows.map(({ at, blocked, would_block, denied, outcome, client, policy, ...row }) => ({
    ...row,
    // What is no time sorts after all times.
    atMs: typeof at === 'number' ? Math.min(at, Number.MAX_VALUE) : Number.MAX_VALUE,
    blocked: blocked === 1,
    would_block: would_block === 1,
    denied: denied === 1,
    unavailable: blocked === 1 && outcome === 'unavailable',
    client: client || clientOf(row.key),
    policy: policy || row.rule_name || 'default',
  }))
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
        (filter.rule === undefined || event.rule_name === filter.rule) &&
        (filter.method === undefined || event.method === filter.method) &&
        (filter.key === undefined || event.key === filter.key) &&
        (filter.path === undefined || event.path.startsWith(filter.path)),
    )
  }

  static ofWindow(events: readonly PlainEvent[], days: number, nowMs: number, filter?: ReportFilter): Recount {
    return new Recount(events, Math.max(0, nowMs - days * DAY_MS), Number.POSITIVE_INFINITY, filter)
  }

  static ofWindowBefore(events: readonly PlainEvent[], days: number, nowMs: number, filter?: ReportFilter): Recount {
    return new Recount(events, Math.max(0, nowMs - 2 * days * DAY_MS), Math.max(0, nowMs - days * DAY_MS), filter)
  }

  counts() {
    return countsOf(this.events)
  }

  /** What limits and denials refused. */
  refusals() {
    return {
      over_limit: this.events.filter(({ blocked, denied, unavailable }) => blocked && !denied && !unavailable).length,
      denied: this.counts().denied,
    }
  }

  summary(days: number) {
    const { total, blocked } = this.counts()
    return { days, total, allowed: total - blocked, blocked, block_rate: total === 0 ? 0 : blocked / total }
  }

  /** The summary of the dashboard, which has all outcomes. */
  outcomes(days: number) {
    const { would_block, denied } = this.counts()
    return { ...this.summary(days), would_block, denied }
  }

  /** Most first, then by bytes. */
  by(
    nameOf: (event: PlainEvent) => string,
    measure: (counts: TrafficCounts) => number = ({ total, denied }) => total + denied,
  ) {
    return [...groupBy(this.events, nameOf)]
      .map(([name, events]) => ({ name, ...countsOf(events) }))
      .filter((counts) => measure(counts) > 0)
      .toSorted((one, other) => measure(other) - measure(one) || compareBytes(one.name, other.name))
  }

  ruleHits(limit: number) {
    return this.by(
      ({ rule_name }) => rule_name,
      ({ total }) => total,
    )
      .filter(({ name }) => name !== '')
      .slice(0, limit)
      .map(({ name, total, blocked }) => ({ rule_name: name, hits: total, blocked }))
  }

  clients(by: 'refused' | 'requests', limit: number) {
    const measure = (counts: ClientCounts) => (by === 'requests' ? counts.requests : counts.over_limit + counts.denied)
    return [...groupBy(this.events, ({ client }) => client)]
      .filter(([client]) => client !== '')
      .map(([client, events]) => ({
        client,
        ...clientCountsOf(events),
        policies: [...groupBy(events, ({ policy }) => policy)]
          .map(([policy, its]) => ({ policy, ...clientCountsOf(its) }))
          .toSorted((one, other) => other.requests - one.requests || compareBytes(one.policy, other.policy)),
      }))
      .filter((counts) => measure(counts) > 0)
      .toSorted((one, other) => measure(other) - measure(one) || compareBytes(one.client, other.client))
      .slice(0, limit)
  }

  offenders(limit: number, atLeast = 1) {
    return this.by(({ key }) => key)
      .map(({ name, blocked }) => ({ key: name, blocked_count: blocked }))
      .filter(({ blocked_count }) => blocked_count >= atLeast)
      .toSorted((one, other) => other.blocked_count - one.blocked_count || compareBytes(one.key, other.key))
      .slice(0, limit)
  }
}

function groupBy(events: readonly PlainEvent[], nameOf: (event: PlainEvent) => string): Map<string, PlainEvent[]> {
  const groups = new Map<string, PlainEvent[]>()
  for (const event of events) {
    const group = groups.get(nameOf(event))
    if (group === undefined) groups.set(nameOf(event), [event])
    else group.push(event)
  }
  return groups
}

export function clientCountsOf(events: readonly PlainEvent[]): ClientCounts {
  return {
    requests: events.length,
    over_limit: events.filter(({ blocked, unavailable }) => blocked && !unavailable).length,
    would_be: events.filter(({ would_block }) => would_block).length,
    denied: events.filter(({ denied }) => denied).length,
  }
}

function countsOf(events: readonly PlainEvent[]) {
  return {
    // A denial is part of no total.
    total: events.filter(({ denied }) => !denied).length,
    blocked: events.filter(({ blocked }) => blocked).length,
    would_block: events.filter(({ would_block }) => would_block).length,
    denied: events.filter(({ denied }) => denied).length,
  }
}

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
