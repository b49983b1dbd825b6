/** Of the clients that were plainly allowed, an hour that is over keeps the 500 busiest; refusals are exact for all. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { foldStep, recountHour, watermarkSql } from '../../../src/log/rollups/fold.js'
import { RollupKeeper } from '../../../src/log/rollups/keeper.js'
import { BUSIEST_CLIENTS, trimNextHour } from '../../../src/log/rollups/trim-clients.js'
import { analyticsFor } from '../../../src/plugin/analytics.js'
import { atEnd } from '../../support/at-end.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { foldRollups } from '../../support/rollups.js'

const DAY_START_MS = Date.UTC(2030, 0, 15)
const NEXT_DAY_MS = DAY_START_MS + DAY_MS + 2 * MINUTE_MS
const CLIENTS = BUSIEST_CLIENTS + 150

/** The clients of an hour: the later ones ask once, the first 50 of them three times, and one is refused at the end. */
function hourOf(startMs: number): Partial<RateLimitEvent>[] {
  const clients = Array.from({ length: CLIENTS }, (_, index) => `user:${String(index).padStart(4, '0')}`)
  const plain = clients.flatMap((client, index) => Array<string>(index < 50 ? 3 : index < 550 ? 2 : 1).fill(client))
  return [
    ...plain.map((client) => ({ client, key: client, timestampMs: startMs + MINUTE_MS })),
    {
      client: clients.at(-1) ?? '',
      key: 'x',
      timestampMs: startMs + 2 * MINUTE_MS,
      allowed: false,
      outcome: 'over_limit',
    },
  ]
}

forEachDatabase((provider, open) => {
  test('an hour keeps all clients until it is over, then the busiest and the refused', async (t) => {
    const { rows, clock, database, analytics } = await start(t)
    await logRows(database, hourOf(DAY_START_MS))
    clock.advance(DAY_START_MS + HOUR_MS - clock.now())
    await foldRollups(database, clock.now())
    assert.equal(await rows(60), CLIENTS)
    assert.equal((await analytics.getTopClients({ by: 'requests', limit: 1_000 })).length, CLIENTS)

    clock.advance(DAY_START_MS + HOUR_MS + 2 * MINUTE_MS - clock.now())
    await foldRollups(database, clock.now())
    assert.equal(await rows(60), BUSIEST_CLIENTS + 1)
    const busiest = await analytics.getTopClients({ by: 'requests', limit: 1_000 })
    assert.equal(busiest.length, BUSIEST_CLIENTS + 1)
    assert.deepEqual([busiest[0]?.client, busiest[49]?.requests, busiest[50]?.requests], ['user:0000', 3, 2])
    // A client that was refused has all its requests of that hour.
    const [refused] = await analytics.getTopClients()
    assert.deepEqual(refused && [refused.client, refused.requests, refused.over_limit], [`user:0${CLIENTS - 1}`, 2, 1])
  })

  test('a day is counted from its hours when they are over, and again after late events and changes', async (t) => {
    const { rows, clock, database, analytics, sums } = await start(t)
    await logRows(database, [...hourOf(DAY_START_MS), ...hourOf(DAY_START_MS + 5 * HOUR_MS)])
    clock.advance(DAY_START_MS + 7 * HOUR_MS - clock.now())
    await foldRollups(database, clock.now())
    assert.equal(await rows(1440), 0)
    clock.advance(NEXT_DAY_MS - clock.now())
    await foldRollups(database, clock.now())
    assert.equal(await rows(1440), BUSIEST_CLIENTS + 1)
    assert.deepEqual(await sums(1440), await sums(60))
    const first = async () => (await analytics.getTopClients({ by: 'requests', limit: 1, days: 3 })).at(0)
    assert.equal((await first())?.requests, 6)

    const late = { client: 'user:0000', key: 'user:0000', timestampMs: DAY_START_MS + 5 * HOUR_MS }
    await logRows(database, Array(4).fill(late))
    assert.equal((await first())?.requests, 10)
    await foldStep(database, clock.now(), 1)
    assert.equal((await first())?.requests, 10, 'before the day is counted again')
    await foldRollups(database, clock.now())
    assert.equal((await first())?.requests, 10)
    assert.deepEqual(await sums(1440), await sums(60))

    const table = database.dialect.table('rate_limit_event')
    await database.execute(`DELETE FROM ${table} WHERE client <> 'user:0007'`)
    await foldRollups(database, clock.now())
    assert.deepEqual([await rows(60), await rows(1440)], [2, 1])
    await database.execute(`DELETE FROM ${table}`)
    await foldRollups(database, clock.now())
    assert.deepEqual([await rows(60), await rows(1440)], [0, 0])
  })

  test('an event that comes while its hour is trimmed makes the hour be trimmed again', async (t) => {
    const { clock, database, sums } = await start(t)
    await logRows(database, hourOf(DAY_START_MS))
    clock.advance(DAY_START_MS + 2 * HOUR_MS - clock.now())
    await foldStep(database, clock.now(), 1)
    while (await foldStep(database, clock.now(), 1));
    clock.advance(NEXT_DAY_MS - clock.now())
    const late = { client: 'user:0000', key: 'user:0000', timestampMs: DAY_START_MS }
    let steps = 0
    const step = async <T>(run: () => Promise<T>): Promise<T> => {
      const result = await run()
      if (++steps === 5) {
        await logRows(database, [late, { ...late, timestampMs: NEXT_DAY_MS }])
        await foldStep(database, clock.now(), 1)
      }
      return result
    }
    while (await trimNextHour(database, clock.now(), step));
    assert.ok(steps > 5)
    // A round ends there; the next one begins anew.
    while (await trimNextHour(database, clock.now()));
    const [busiest] = await sums(1440)
    assert.deepEqual(busiest, { client: 'user:0000', requests: 4 })
  })

  test('an hour is not trimmed while it is half folded, wherever a step ends', async (t) => {
    const { clock, database, events, trimsNothing } = await start(t)
    Object.assign(database, { dialect: { ...database.dialect, eventsPerFold: 1_200 } })
    const hour = hourOf(DAY_START_MS)
    await logRows(database, hour.slice(0, 1_199))
    // No event has the last id of the step.
    await database.query(
      provider === 'postgresql'
        ? `SELECT nextval(pg_get_serial_sequence('${events}', 'id'))`
        : `UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'rate_limit_event' RETURNING seq`,
    )
    await logRows(database, hour.slice(1_199))
    clock.advance(DAY_START_MS + 2 * HOUR_MS - clock.now())
    await foldStep(database, clock.now(), 1)
    await trimsNothing()
  })

  test('an hour is not trimmed while it is half folded, where the last folded event is deleted', async (t) => {
    const { clock, database, events, trimsNothing } = await start(t)
    Object.assign(database, { dialect: { ...database.dialect, eventsPerFold: 1_200 } })
    await logRows(database, hourOf(DAY_START_MS))
    clock.advance(DAY_START_MS + 2 * HOUR_MS - clock.now())
    await foldStep(database, clock.now(), 1)
    await database.execute(`DELETE FROM ${events} WHERE id = ${watermarkSql(database)}`)
    await recountHour(database, DAY_START_MS / HOUR_MS, clock.now())
    await trimsNothing()
  })

  test('a server trims minutes as well, and shows the busiest of a quarter of an hour', async (t) => {
    const { rows, clock, database, analytics } = await start(t)
    await logRows(database, hourOf(DAY_START_MS))
    clock.advance(DAY_START_MS + 10 * MINUTE_MS - clock.now())
    const log = { warn: (error: object) => assert.fail(JSON.stringify(error)) }
    const keeper = new RollupKeeper({ database, clock, log })
    await keeper.round()
    // The rest of the events, which are too few for a round.
    while (await foldStep(database, clock.now(), 1));
    await keeper.round()
    assert.equal(await rows(1), BUSIEST_CLIENTS + 1)
    assert.equal(await rows(60), CLIENTS)
    const busiest = await analytics.getTopClients({ by: 'requests', days: 15 / (24 * 60), limit: 3 })
    assert.deepEqual(
      busiest.map(({ client, requests }) => [client, requests]),
      [
        ['user:0000', 3],
        ['user:0001', 3],
        ['user:0002', 3],
      ],
    )
    await keeper.close()
  })

  async function start(t: TestContext) {
    const clock = fakeClock(DAY_START_MS)
    const { database, close } = await open(clock)
    atEnd(t, close)
    const table = database.dialect.table('rate_limit_request_rollup')
    const sums = (span: number) =>
      database.query<{ client: string; requests: number }>(
        `SELECT client, SUM(requests) AS requests FROM ${table} WHERE span = $1 GROUP BY client ORDER BY 2 DESC, client`,
        [span],
      )
    return {
      clock,
      database,
      events: database.dialect.table('rate_limit_event'),
      analytics: analyticsFor(database, clock),
      async rows(span: number): Promise<number | undefined> {
        const [row] = await database.query<{ rows: number }>(`SELECT COUNT(*) AS rows FROM ${table} WHERE span = $1`, [
          span,
        ])
        return row?.rows
      },
      sums,
      /** Trims, and finds an hour with more clients than it would keep as it was. */
      async trimsNothing(): Promise<void> {
        const folded = await sums(60)
        assert.ok(folded.length > BUSIEST_CLIENTS)
        while (await trimNextHour(database, clock.now()));
        assert.deepEqual(await sums(60), folded)
      },
    }
  }
})
