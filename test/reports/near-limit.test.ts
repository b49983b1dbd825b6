import assert from 'node:assert/strict'
import { test } from 'node:test'
import { nearLimit } from '../../src/reports/near-limit.js'
import { createReportRunner } from '../../src/reports/report.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { long } from '../support/long.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)

forEachDatabase((_provider, open) => {
  test('the highest limit there can be has clients near it, too', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const limit = 2 ** 31 - 1
    const event = { timestampMs: NOW_MS, client: '', limit }
    await logRows(database, [
      { ...event, key: 'near', count: limit },
      { ...event, key: 'not near', count: Math.floor(limit * 0.8) },
    ])
    const { clients } = await createReportRunner(database, fakeClock(NOW_MS))(nearLimit({}))
    assert.deepEqual(clients, [{ client: '', key: 'near', policy: 'default', count: limit, limit, at_ms: NOW_MS }])
  })

  test('a client stands where its latest request under a policy left it, and all requests are counted', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const read = () => createReportRunner(database, fakeClock(NOW_MS))(nearLimit({}))
    assert.deepEqual(await read(), { clients: [], requests: 0, since_ms: NOW_MS - 60_000 })
    const at = (agoMs: number, key: string, count: number, policy = 'a') => {
      return { limit: 10, timestampMs: NOW_MS - agoMs, key, client: key, count, policy }
    }
    await logRows(database, [at(60_001, 'ip:192.0.2.9', 10), at(3_000, 'ip:192.0.2.8', 1)])
    assert.deepEqual(await read(), { clients: [], requests: 1, since_ms: NOW_MS - 60_000 })
    await logRows(database, [
      // Of the same moment the later row counts.
      ...[at(2_000, 'ip:192.0.2.1', 10), at(2_000, 'ip:192.0.2.1', 2)],
      ...[at(5_000, 'ip:192.0.2.2', 3), at(4_000, 'ip:192.0.2.2', 9)],
      ...[at(1_000, 'ip:192.0.2.2', 1, 'b'), { ...at(900, 'ip:192.0.2.3', 11), allowed: false }],
    ])
    assert.deepEqual(await read(), {
      clients: [
        { client: 'ip:192.0.2.2', key: 'ip:192.0.2.2', policy: 'a', count: 9, limit: 10, at_ms: NOW_MS - 4_000 },
      ],
      requests: 7,
      since_ms: NOW_MS - 60_000,
    })
  })

  test('of a minute with more requests the latest 5,000 are looked at', long(), async (t) => {
    const { database, close } = await open()
    t.after(close)
    const event = { key: 'ip:192.0.2.1', client: 'ip:192.0.2.1', limit: 10_000 }
    await logRows(
      database,
      Array.from({ length: 5_001 }, (_, place) => ({
        ...event,
        timestampMs: NOW_MS - 10 * place,
        count: 9_500 - place,
      })),
    )
    const { clients, ...looked } = await createReportRunner(database, fakeClock(NOW_MS))(nearLimit({}))
    assert.deepEqual(looked, { requests: 5_000, since_ms: NOW_MS - 49_990 })
    assert.deepEqual(
      clients.map(({ key, count, at_ms }) => [key, count, at_ms]),
      [['ip:192.0.2.1', 9_500, NOW_MS]],
    )
  })
})
