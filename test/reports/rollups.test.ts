/** Reports add up rollups: whatever became of the event log, they agree with counting its rows. */
import { test } from 'node:test'
import type { Database } from '../../src/database/database.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { foldStep, markedHours, recountHour } from '../../src/log/rollups/fold.js'
import { dashboardReport } from '../../src/reports/dashboard-report.js'
import type { ReportFilter } from '../../src/reports/filter.js'
import { createReportRunner } from '../../src/reports/report.js'
import { fakeClock } from '../support/clock.js'
import { compareRange, compareReports } from '../support/compare-reports.js'
import { forEachDatabase } from '../support/databases.js'
import { insertEvents, type NewEvent } from '../support/events.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'
import { foldRollups } from '../support/rollups.js'

/** Histories per database, fewer on PostgreSQL, which takes three times as long for the same SQL; more with `TEST_TRACES`. */
const HISTORIES = { sqlite: 40, postgresql: 20 }
const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)
/** In the first half of an hour: the ends of windows are what whole hours have too much. */
const EARLIER_MS = NOW_MS - HOUR_MS / 3

const KEYS = ['ip:192.0.2.1', 'ip:192.0.2.2', 'user:7', 'rule:a:192.0.2.1', 'ä']
const RULES = ['', 'a', 'b']
/** What no server writes is here, too: none may fail the fold. */
const APPLIED = ['', '', '', '+a:-b', '-a:+b:+c', '-a:-b', '+c', '+"\\-:+a', ':x:+:-:+a']
const PATHS = ['/', '/a', '/a/b', '/ä', '']
const METHODS = ['GET', 'POST']

/** Moments where the parts of a window meet are likelier than others. */
const moment = fc.oneof(
  fc.integer({ min: 0, max: 5 * DAY_MS }).map((ageMs) => NOW_MS - ageMs),
  fc
    .tuple(fc.integer({ min: 0, max: 100 }), fc.constantFrom(HOUR_MS, DAY_MS), fc.constantFrom(-1, 0, 1))
    .map(([ago, unitMs, byMs]) => (Math.floor(NOW_MS / unitMs) - (ago % 6)) * unitMs + byMs),
  // The windows of a quarter of an hour and an hour, read by minutes.
  fc
    .tuple(fc.constantFrom(0, 15, 60, 61, 119, 120, 121), fc.constantFrom(-1, 0, 1))
    .map(([minutes, byMs]) => Math.floor(NOW_MS / MINUTE_MS - minutes) * MINUTE_MS + byMs),
  fc.integer({ min: 0, max: 3 * HOUR_MS }).map((ageMs) => NOW_MS - ageMs),
  fc.constantFrom(0, 1, NOW_MS - DAY_MS, NOW_MS - DAY_MS - 1, NOW_MS + 1, NOW_MS + HOUR_MS, NOW_MS + 3 * DAY_MS),
)
/** The ends of ranges: within an hour of each other, or days, beside whole minutes, hours and days. */
const rangeEnd = fc.oneof(
  moment.filter((ms) => ms >= 0),
  fc.integer({ min: 0, max: 2 * HOUR_MS }).map((ageMs) => NOW_MS - DAY_MS - ageMs),
)
const event: fc.Arbitrary<NewEvent> = fc
  .record({
    atMs: moment,
    key: fc.constantFrom(...KEYS),
    rule: fc.constantFrom(...RULES),
    path: fc.constantFrom(...PATHS),
    method: fc.constantFrom(...METHODS),
    outcome: fc.constantFrom('allowed', 'blocked', 'would_block', 'denied', 'unavailable'),
    rules: fc.constantFrom(...APPLIED),
    weight: fc.constantFrom(1, 1, 2, 7),
  })
  // A denial decides alone.
  .map((each) => (each.outcome === 'denied' ? { ...each, rules: '' } : each))
const step = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('insert' as const), events: fc.array(event, { maxLength: 30 }) }),
  },
  {
    weight: 2,
    // The clock of a process may be behind, or of another day.
    arbitrary: fc.record({
      kind: fc.constant('fold' as const),
      nowMs: fc.constantFrom(NOW_MS, EARLIER_MS, NOW_MS + DAY_MS),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('fold a step' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('count a part of an hour' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete older' as const), atMs: moment }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete every third' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('move' as const), key: fc.constantFrom(...KEYS), atMs: moment }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('pardon' as const), key: fc.constantFrom(...KEYS) }) },
)
/** What was read then must not show later. */
const report = fc.constant({ kind: 'report' as const })
type Step = typeof step extends fc.Arbitrary<infer Made> ? Made : never

async function take(database: Database, step: Step): Promise<void> {
  const { dialect } = database
  const table = dialect.table('rate_limit_event')
  switch (step.kind) {
    case 'insert':
      await insertEvents(database, step.events)
      return
    case 'fold':
      await foldRollups(database, step.nowMs)
      return
    case 'fold a step':
      await foldStep(database, NOW_MS, 1)
      return
    case 'count a part of an hour': {
      const [hour] = await markedHours(database)
      const onlyOnce = (run: () => Promise<number>) => run().then(() => Number.POSITIVE_INFINITY)
      if (hour !== undefined) await recountHour(database, hour, NOW_MS, onlyOnce)
      return
    }
    case 'delete older':
      await database.execute(`DELETE FROM ${table} WHERE "timestamp" < ${dialect.fromMs('$1')}`, [step.atMs])
      return
    case 'delete every third':
      await database.execute(`DELETE FROM ${table} WHERE id % 3 = 0`)
      return
    case 'move':
      await database.execute(
        `UPDATE ${table} SET "timestamp" = ${dialect.fromMs('$1')} WHERE key = $2 AND id % 2 = 0`,
        [step.atMs, step.key],
      )
      return
    case 'pardon':
      // As one who knows nothing of outcomes writes it.
      await database.execute(
        `UPDATE ${table} SET allowed = NOT allowed, outcome = '', path = '/pardoned' WHERE key = $1`,
        [step.key],
      )
  }
}

forEachDatabase((provider, open) => {
  test('every report equals the plain recount, whatever became of the log', long(), async (t) => {
    const { database, close } = await open()
    t.after(close)
    // So that a step is a part of most histories, and of an hour with few events.
    Object.assign(database, { dialect: { ...database.dialect, eventsPerFold: 7 } })
    const history = fc.record({
      steps: fc.array(fc.oneof({ weight: 16, arbitrary: step }, { weight: 3, arbitrary: report }), {
        minLength: 1,
        maxLength: 12,
      }),
      nowMs: fc.constantFrom(NOW_MS, EARLIER_MS),
      days: fc.oneof(
        fc.constantFrom(1, 2, 3, 7, 14, 30, 365, 1 / 24, 1 / 96),
        fc.double({ min: 0.001, max: 6, noNaN: true }),
      ),
      filter: fc.oneof(
        fc.constantFrom<ReportFilter>(
          { rule: 'a' },
          { rule: '' },
          { path: '/a' },
          { path: '/ä' },
          { method: 'POST' },
          { key: 'user:7' },
          { rule: 'b', path: '/', method: 'GET' },
          { key: 'ä', method: 'GET' },
        ),
      ),
    })
    await fc.assert(
      fc.asyncProperty(history, async ({ steps, nowMs, days, filter }) => {
        await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')}`)
        const read = createReportRunner(database, fakeClock(nowMs))
        for (const each of steps) {
          if (each.kind === 'report') await read(dashboardReport({ days, hasOffenders: true }))
          else await take(database, each)
        }
        await compareReports(database, nowMs, days, filter)
        await foldRollups(database, nowMs)
        await compareReports(database, nowMs, days, filter)
      }),
      { numRuns: Number(process.env.TEST_TRACES ?? HISTORIES[provider]) },
    )
  })

  test('a range with odd ends equals the plain recount, whatever became of the log', long(), async (t) => {
    const { database, close } = await open()
    t.after(close)
    Object.assign(database, { dialect: { ...database.dialect, eventsPerFold: 7 } })
    const history = fc.record({
      steps: fc.array(step, { minLength: 1, maxLength: 8 }),
      nowMs: fc.constantFrom(NOW_MS, EARLIER_MS),
      ends: fc.tuple(rangeEnd, rangeEnd),
      filter: fc.constantFrom<ReportFilter>({ rule: 'a' }, { path: '/a' }, { method: 'POST' }, { key: 'user:7' }),
    })
    await fc.assert(
      fc.asyncProperty(history, async ({ steps, nowMs, ends, filter }) => {
        const [sinceMs, untilMs] = [Math.min(...ends), Math.max(...ends) + 1]
        await database.execute(`DELETE FROM ${database.dialect.table('rate_limit_event')}`)
        for (const each of steps) await take(database, each)
        await compareRange(database, nowMs, { sinceMs, untilMs }, filter)
        await foldRollups(database, nowMs)
        await compareRange(database, nowMs, { sinceMs, untilMs }, filter)
      }),
      { numRuns: Number(process.env.TEST_TRACES ?? HISTORIES[provider]) },
    )
  })

  test('nothing is in a range that is yet to come', async (t) => {
    const { database, close } = await open()
    t.after(close)
    for (const sinceMs of [NOW_MS + MINUTE_MS, NOW_MS + 3 * HOUR_MS, NOW_MS + 3 * DAY_MS]) {
      for (const filter of [{}, { rule: 'a' }]) {
        await compareRange(database, NOW_MS, { sinceMs, untilMs: sinceMs + 1 }, filter)
      }
    }
  })

  test('nothing was before the epoch', async (t) => {
    const { database, close } = await open()
    t.after(close)
    await insertEvents(database, [
      { atMs: 500, key: 'user:7', rule: 'a', path: '/', method: 'GET', outcome: 'blocked' },
    ])
    await compareReports(database, 1_000, 7, { path: '/' })
  })

  test('a window that begins in an hour with more paths than it keeps apart is exact by path', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const hourMs = Math.floor((EARLIER_MS - DAY_MS) / HOUR_MS) * HOUR_MS
    const events = Array.from({ length: 300 }, (_, place): NewEvent[] =>
      [1, 40].map((minute) => ({
        atMs: hourMs + minute * MINUTE_MS,
        key: 'ip:192.0.2.1',
        rule: 'a',
        path: `/${place}`,
        method: 'GET',
        outcome: 'allowed',
      })),
    ).flat()
    await insertEvents(database, events)
    await foldRollups(database)

    await compareReports(database, EARLIER_MS, 1, { method: 'GET' })
  })
})
