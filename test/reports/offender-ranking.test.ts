/** However few leaders are known of past and present days, a list has the keys with the most refusals. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS } from '../../src/ground/time/clock.js'
import { foldAll } from '../../src/log/rollups/catch-up.js'
import { ClosedHourCache } from '../../src/reports/closed-hour-cache.js'
import { prepareRankings } from '../../src/reports/prepare-rankings.js'
import { rankOffenders, topOffenders } from '../../src/reports/ranking.js'
import { closedHourCacheFor, createReportRunner } from '../../src/reports/report.js'
import { topClients } from '../../src/reports/top-clients.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { insertEvents, logEvents } from '../support/events.js'
import { long } from '../support/long.js'
import { fc } from '../support/properties.js'
import { Recount, readEvents } from '../support/recount.js'

const HISTORIES = Number(process.env.TEST_TRACES ?? 15)
const NOW_MS = Date.UTC(2026, 0, 15, 12, 34, 56, 789)

/** Mostly refusals of the window, of many keys and few; some are dated later than today. */
const refusal = fc.record({
  ageMs: fc.oneof(
    fc.integer({ min: 0, max: 4 * DAY_MS }),
    fc.integer({ min: 0, max: 12 * HOUR_MS }),
    fc.constant(-2 * DAY_MS),
  ),
  key: fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 3 })).map((place) => `user:${place}`),
})
const round = fc.record({
  refusals: fc.array(refusal, { maxLength: 60 }),
  isFolded: fc.boolean(),
  /** Which events are deleted, by their ids; 0 for none. */
  deletes: fc.constantFrom(0, 0, 3, 7),
  isCountedAgain: fc.boolean(),
  limit: fc.integer({ min: 1, max: 6 }),
  atLeast: fc.integer({ min: 1, max: 4 }),
  days: fc.constantFrom(0.3, 1, 2, 3, 3, 3),
})

forEachDatabase((_provider, open) => {
  test('a list is exact with few known leaders, also those of a moment ago', long(), async (t) => {
    const { database, close } = await open()
    t.after(close)
    const table = database.dialect.table('rate_limit_event')
    const read = createReportRunner(database, fakeClock(NOW_MS))
    const history = fc.record({
      sizes: fc.record({ closed: fc.integer({ min: 0, max: 20 }), open: fc.integer({ min: 0, max: 20 }) }),
      rounds: fc.array(round, { minLength: 1, maxLength: 6 }),
    })
    await fc.assert(
      fc.asyncProperty(history, async ({ sizes, rounds }) => {
        await database.execute(`DELETE FROM ${table}`)
        await foldAll(database, NOW_MS)
        const closed = new ClosedHourCache(sizes)
        for (const { refusals, isFolded, deletes, isCountedAgain, limit, atLeast, days } of rounds) {
          await insertEvents(
            database,
            refusals.map(({ ageMs, key }) => ({
              atMs: NOW_MS - ageMs,
              key,
              rule: '',
              path: '/',
              method: 'GET',
              outcome: 'blocked',
            })),
          )
          if (isFolded) await foldAll(database, NOW_MS)
          if (deletes > 0) await database.execute(`DELETE FROM ${table} WHERE id % ${deletes} = 0`)
          if (isCountedAgain) await foldAll(database, NOW_MS)
          const window = Recount.ofWindow(await readEvents(database), days, NOW_MS)
          for (const by of ['refused', 'requests'] as const) {
            assert.deepEqual(
              await read((snapshot) => topClients({ days, limit, by })({ ...snapshot, closed })),
              window.clients(by, limit),
            )
          }
          assert.deepEqual(
            await read((snapshot) => rankOffenders({ ...snapshot, closed }, { days }, { limit, atLeast })),
            window.offenders(limit, atLeast),
          )
        }
      }),
      { numRuns: HISTORIES },
    )
  })

  test('leaders are read when their window reaches another hour, until a day after its last report', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const clock = fakeClock(NOW_MS)
    let reports = 0
    const read = database.report.bind(database)
    Object.assign(database, {
      report: (report: Parameters<typeof read>[0]) => {
        reports++
        return read(report)
      },
    })
    closedHourCacheFor(database).expect('offenders', 3 * DAY_MS, clock.now())
    const counted: number[] = []
    for (const afterMs of [0, 0, HOUR_MS, 0, DAY_MS, HOUR_MS]) {
      clock.advance(afterMs)
      await prepareRankings(database, clock)
      counted.push(reports)
    }
    assert.deepEqual(counted, [1, 1, 2, 2, 2, 2])
  })

  test('the leaders of a range are read for its reports alone', async (t) => {
    const { client, database, close } = await open()
    t.after(close)
    const clock = fakeClock(NOW_MS)
    await logEvents(client, { key: 'ip:203.0.113.7', blocked: 1, atMs: NOW_MS - 2 * DAY_MS })
    await foldAll(database, NOW_MS)
    const range = { since: NOW_MS - 3 * DAY_MS, until: NOW_MS - DAY_MS }
    assert.equal((await createReportRunner(database, clock)(topOffenders(range))).length, 1)
    const refreshed: number[] = []
    const later = { nowMs: NOW_MS + HOUR_MS, version: 'another' }
    await closedHourCacheFor(database).refresh(later, async (_ranking, windowMs) => refreshed.push(windowMs))
    assert.deepEqual(refreshed, [])
  })
})
