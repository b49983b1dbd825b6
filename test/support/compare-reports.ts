import assert from 'node:assert/strict'
import type { Database } from '../../src/database/database.js'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { type DashboardReport, dashboardReport } from '../../src/reports/dashboard-report.js'
import type { ReportFilter } from '../../src/reports/filter.js'
import { createReportRunner } from '../../src/reports/report.js'
import type { WindowOptions } from '../../src/reports/report-window.js'
import { topClients } from '../../src/reports/top-clients.js'
import { fakeClock } from './clock.js'
import { type PlainEvent, Recount, readEvents } from './recount.js'

type EventsOf = (events: readonly PlainEvent[], filter?: ReportFilter) => Recount

/** A window, and what a plain recount has of it. */
interface ComparedWindow {
  readonly options: WindowOptions
  readonly days: number
  readonly recount: EventsOf
  /** The time of the same length before it. */
  readonly recountBefore: EventsOf
  /** The time from which bars may count at all. */
  readonly barsFromMs: number
  readonly barsToMs: number
}

/** Compares every report of the last days with the plain recount. */
export async function compareReports(
  database: Database,
  nowMs: number,
  days: number,
  filter?: ReportFilter,
): Promise<void> {
  await compareWindow(
    database,
    nowMs,
    {
      options: { days },
      days,
      recount: (events, its) => Recount.ofWindow(events, days, nowMs, its),
      recountBefore: (events, its) => Recount.ofWindowBefore(events, days, nowMs, its),
      barsFromMs: 0,
      barsToMs: Number.POSITIVE_INFINITY,
    },
    filter,
  )
}

/** Compares every report of a range with the plain recount. */
export async function compareRange(
  database: Database,
  nowMs: number,
  { sinceMs, untilMs }: { readonly sinceMs: number; readonly untilMs: number },
  filter?: ReportFilter,
): Promise<void> {
  const beforeMs = Math.max(0, 2 * sinceMs - untilMs)
  await compareWindow(
    database,
    nowMs,
    {
      options: { since: sinceMs, until: new Date(untilMs) },
      days: (untilMs - sinceMs) / DAY_MS,
      recount: (events, its) => new Recount(events, sinceMs, untilMs, its),
      recountBefore: (events, its) => new Recount(events, beforeMs, sinceMs, its),
      barsFromMs: sinceMs,
      barsToMs: untilMs,
    },
    filter,
  )
}

async function compareWindow(
  database: Database,
  nowMs: number,
  compared: ComparedWindow,
  filter?: ReportFilter,
): Promise<void> {
  const { options, days } = compared
  const clock = fakeClock(nowMs)
  const events = await readEvents(database)
  const window = compared.recount(events)
  const analytics = analyticsFor(database, clock)

  assert.deepEqual(await analytics.getTrafficSummary(options), window.summary(days))
  assert.deepEqual(await analytics.getRuleHitCounts(options), window.ruleHits(50))
  for (const limit of [1, 3, 1000]) {
    assert.deepEqual(await analytics.getTopOffenders({ ...options, limit }), window.offenders(limit))
  }
  assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 3, ...options }), window.offenders(100, 3))
  const read = createReportRunner(database, clock)
  for (const by of ['refused', 'requests'] as const) {
    for (const limit of [2, 1000]) {
      assert.deepEqual(await read(topClients({ ...options, limit, by })), window.clients(by, limit))
    }
  }
  for (const each of filter === undefined ? [{}] : [{}, filter]) {
    compareDashboard(
      await read(dashboardReport({ ...options, filter: each, hasOffenders: true })),
      events,
      nowMs,
      compared,
      each,
    )
  }
}

function compareDashboard(
  report: DashboardReport,
  events: readonly PlainEvent[],
  nowMs: number,
  { days, recount, recountBefore, barsFromMs, barsToMs }: ComparedWindow,
  filter: ReportFilter,
): void {
  const window = recount(events, filter)
  const barOf = (its: readonly PlainEvent[], startMs: number, barMs: number) =>
    new Recount(its, Math.max(startMs, barsFromMs), Math.min(startMs + barMs, barsToMs), filter)
  const { total, blocked, would_block, denied } = window.counts()

  assert.deepEqual(report.window, window.outcomes(days))
  assert.deepEqual(report.today, Recount.ofWindow(events, 1, nowMs, filter).outcomes(1))
  assert.deepEqual(report.before, recountBefore(events, filter).outcomes(days))
  assert.deepEqual(report.outcomes, { allowed: total - blocked - would_block, would_block, blocked, denied })
  assert.deepEqual(report.rule_hits, window.ruleHits(20, filter.rule))
  assert.deepEqual(report.by_rule.shares, window.byRule(filter.rule).slice(0, 20))
  assert.deepEqual(
    report.by_method.shares,
    window.by(({ method }) => method),
  )
  const paths = window.by(({ path }) => path)
  const listed = paths.filter(({ name }) => name !== '').slice(0, 20)
  assert.deepEqual(report.by_path.shares, listed)
  assert.equal(report.by_path.other.total, total - listed.reduce((sum, share) => sum + share.total, 0))
  assert.deepEqual(report.top_offenders, window.offenders(20))
  assert.deepEqual(
    report.top_clients.map(({ bar_ms: _, bars: _bars, paths: _paths, request: _request, ...client }) => client),
    window.clients('refused', 20),
  )
  for (const { client, bar_ms, bars } of report.top_clients) {
    const recounted = new Recount(events, 0, Number.POSITIVE_INFINITY, filter).events.filter(
      (its) => its.client === client,
    )
    for (const { start_ms, ...refusals } of bars) {
      assert.deepEqual(refusals, barOf(recounted, start_ms, bar_ms).refusals())
    }
  }
  // Bars of an hour or more come from the trend, which knows of deleted events too.
  if (Object.keys(filter).length === 0 && report.over_time.bar_ms >= HOUR_MS) return
  const { bar_ms, bars } = report.over_time
  for (const { start_ms, ...counts } of bars) {
    assert.deepEqual(counts, barOf(events, start_ms, bar_ms).counts())
  }
}
