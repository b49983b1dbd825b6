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
}

interface Row extends Omit<PlainEvent, 'blocked' | 'would_block' | 'atMs'> {
  readonly at: number | string
  readonly blocked: number
  readonly would_block: number
}

/** Every event of a database but denials, without any rollup. */
export async function readEvents(database: Database): Promise<PlainEvent[]> {
  const rows = await database.query<Row>(
    `SELECT "timestamp" AS at, key, rule_name, path, method, CASE WHEN allowed = false THEN 1 ELSE 0 END AS blocked,
       CASE WHEN allowed <> false AND (outcome = 'over_limit' OR (outcome = '' AND count > "limit")) THEN 1 ELSE 0 END AS would_block
     FROM ${database.dialect.table('rate_limit_event')} WHERE outcome <> 'denied'`,
  )
  return rows.map(({ at, blocked, would_block, ...row }) => ({
    ...row,
    // What is no time sorts after all times.
    atMs: typeof at === 'number' ? Math.min(at, Number.MAX_VALUE) : Number.MAX_VALUE,
    blocked: blocked === 1,
    would_block: would_block === 1,
  }))
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

  summary(days: number) {
    const { total, blocked } = this.counts()
    return { days, total, allowed: total - blocked, blocked, block_rate: total === 0 ? 0 : blocked / total }
  }

  /** Most first, then by bytes. */
  by(nameOf: (event: PlainEvent) => string) {
    const groups = new Map<string, PlainEvent[]>()
    for (const event of this.events) {
      const group = groups.get(nameOf(event))
      if (group === undefined) groups.set(nameOf(event), [event])
      else group.push(event)
    }
    return [...groups]
      .map(([name, events]) => ({ name, ...countsOf(events) }))
      .toSorted((one, other) => other.total - one.total || compareBytes(one.name, other.name))
  }

  ruleHits(limit: number) {
    return this.by(({ rule_name }) => rule_name)
      .filter(({ name }) => name !== '')
      .slice(0, limit)
      .map(({ name, total, blocked }) => ({ rule_name: name, hits: total, blocked }))
  }

  offenders(limit: number, atLeast = 1) {
    return this.by(({ key }) => key)
      .map(({ name, blocked }) => ({ key: name, blocked_count: blocked }))
      .filter(({ blocked_count }) => blocked_count >= atLeast)
      .toSorted((one, other) => other.blocked_count - one.blocked_count || compareBytes(one.key, other.key))
      .slice(0, limit)
  }
}

function countsOf(events: readonly PlainEvent[]) {
  return {
    total: events.length,
    blocked: events.filter(({ blocked }) => blocked).length,
    would_block: events.filter(({ would_block }) => would_block).length,
  }
}

function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
