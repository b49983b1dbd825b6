import assert from 'node:assert/strict'
import type { Database } from '../../src/database/database.js'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { type DashboardReport, dashboardReport } from '../../src/reports/dashboard-report.js'
import type { ReportFilter } from '../../src/reports/filter.js'
import { createReportRunner } from '../../src/reports/report.js'
import { topClients } from '../../src/reports/top-clients.js'
import { fakeClock } from './clock.js'
import { type PlainEvent, Recount, readEvents } from './recount.js'

/** Compares every report with the plain recount. */
export async function compareReports(
  database: Database,
  nowMs: number,
  days: number,
  filter?: ReportFilter,
): Promise<void> {
  const clock = fakeClock(nowMs)
  const events = await readEvents(database)
  const window = Recount.ofWindow(events, days, nowMs)
  const analytics = analyticsFor(database, clock)

  assert.deepEqual(await analytics.getTrafficSummary({ days }), window.summary(days))
  assert.deepEqual(await analytics.getRuleHitCounts({ days }), window.ruleHits(50))
  for (const limit of [1, 3, 1000]) {
    assert.deepEqual(await analytics.getTopOffenders({ days, limit }), window.offenders(limit))
  }
  assert.deepEqual(await analytics.findAlertableOffenders({ threshold: 3, days }), window.offenders(100, 3))
  const read = createReportRunner(database, clock)
  for (const by of ['refused', 'requests'] as const) {
    for (const limit of [2, 1000]) {
      assert.deepEqual(await read(topClients({ days, limit, by })), window.clients(by, limit))
    }
  }
  for (const each of filter === undefined ? [{}] : [{}, filter]) {
    compareDashboard(await read(dashboardReport({ days, filter: each, hasOffenders: true })), events, nowMs, days, each)
  }
}

function compareDashboard(
  report: DashboardReport,
  events: readonly PlainEvent[],
  nowMs: number,
  days: number,
  filter: ReportFilter,
): void {
  const window = Recount.ofWindow(events, days, nowMs, filter)
  const { total, blocked, would_block, denied } = window.counts()

  assert.deepEqual(report.window, window.outcomes(days))
  assert.deepEqual(report.today, Recount.ofWindow(events, 1, nowMs, filter).outcomes(1))
  assert.deepEqual(report.before.window, Recount.ofWindowBefore(events, days, nowMs, filter).outcomes(days))
  assert.deepEqual(report.before.today, Recount.ofWindowBefore(events, 1, nowMs, filter).outcomes(1))
  assert.deepEqual(report.outcomes, { allowed: total - blocked - would_block, would_block, blocked, denied })
  assert.deepEqual(report.rule_hits, window.ruleHits(20))
  assert.deepEqual(report.by_rule.shares, window.by(({ rule_name }) => rule_name).slice(0, 20))
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
    const own = new Recount(events, 0, Number.POSITIVE_INFINITY, filter).events.filter((its) => its.client === client)
    for (const { start_ms, ...refusals } of bars) {
      assert.deepEqual(refusals, new Recount(own, start_ms, start_ms + bar_ms).refusals())
    }
  }
  // Bars of an hour or more come from the trend, which knows of deleted events too.
  if (Object.keys(filter).length === 0 && report.over_time.bar_ms >= HOUR_MS) return
  const { bar_ms, bars } = report.over_time
  for (const { start_ms, ...counts } of bars) {
    assert.deepEqual(counts, new Recount(events, start_ms, start_ms + bar_ms, filter).counts())
  }
}
