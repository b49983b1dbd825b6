/** The events of a client are found whatever their keys are: a rule of a group may count by another kind than the rest. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { HAS_OTHER_KEY } from '../../src/log/event-sql.js'
import { cleanupOldEvents } from '../../src/log/rollups/retention.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { dashboardReport } from '../../src/reports/dashboard-report.js'
import { searchEvents } from '../../src/reports/event-search.js'
import { latestRequests } from '../../src/reports/latest-requests.js'
import { createReportRunner } from '../../src/reports/report.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

const ALICE = 'ip:203.0.113.7'
const BOTH = 'user:7|ip:203.0.113.9'

/** Keys as they are logged for the client itself, without its kind, and of others. */
const KEYS: readonly (readonly [client: string, key: string, isOther: boolean])[] = [
  [ALICE, 'rule:r:203.0.113.7', false],
  ['ip:2001:db8::/64', 'rule:r:2001:db8::/64', false],
  ['user:7', 'rule:r:user:7', false],
  ['user:a:b', 'rule:r:user:a:b', false],
  ['user.org:acme', 'rule:r:acme', false],
  ['user.org:a:b', 'rule:r:a:b', false],
  ['header:x-key:a:b', 'rule:r:a:b', false],
  ['cookie:sid:abc', 'rule:r:abc', false],
  ['route:/items/:id', 'rule:r:/items/:id', false],
  ['all', 'rule:r:all', false],
  [BOTH, 'rule:r:user:7|203.0.113.9', false],
  [ALICE, ALICE, false],
  [ALICE, 'rule:r:all', true],
  [ALICE, 'rule:r:acme', true],
  // The end of the client, without a whole kind before it.
  [ALICE, 'rule:r:7', true],
  ['ip:2001:db8::/64', 'rule:r:db8::/64', true],
  ['user:7', 'rule:r:7', true],
  ['user.org:a:b', 'rule:r:b', true],
  ['header:x-key:a:b', 'rule:r:b', true],
  ['header:x-key:a:b', 'rule:r:x-key:a:b', true],
  ['route:/items/:id', 'rule:r:id', true],
  [ALICE, 'rule:r:user:7|203.0.113.7', true],
  [BOTH, 'rule:r:user:7', true],
  [BOTH, 'rule:r:all', true],
]

function by(client: string, key: string, its: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent> {
  const [, ruleName = ''] = /^rule:([^:]+):/.exec(key) ?? []
  return { client, key, ruleName, policy: ruleName || 'default', ...its }
}

forEachDatabase((_provider, open) => {
  test('a key is told from those of the client itself', async (t) => {
    const { database, close } = await open()
    t.after(close)
    await logRows(
      database,
      KEYS.map(([client, key]) => by(client, key)),
    )
    const rows = await database.query<{ client: string; key: string; other: number }>(
      `SELECT client, key, CASE WHEN ${HAS_OTHER_KEY} THEN 1 ELSE 0 END AS other
       FROM ${database.dialect.table('rate_limit_event')} ORDER BY id`,
    )
    assert.deepEqual(
      rows.map(({ client, key, other }) => [client, key, other === 1]),
      KEYS,
    )
  })

  test('reports, lists and searches find the events of a client under the keys of others, and no events of others', async (t) => {
    const clock = fakeClock()
    const { database, close } = await open(clock)
    t.after(close)
    const nowMs = clock.now()
    const read = createReportRunner(database, clock)
    const analytics = analyticsFor(database, clock)
    const refused = { allowed: false, outcome: 'over_limit' } as const
    const timestampMs = nowMs - DAY_MS
    await logRows(database, [
      by(ALICE, ALICE, { timestampMs, path: '/own' }),
      by(ALICE, 'rule:team:all', { timestampMs, path: '/team', rules: '+api:+team' }),
      by(ALICE, 'rule:org:acme', { timestampMs, path: '/org', ...refused, rules: '+api:-org' }),
      by(BOTH, 'rule:org:acme', { timestampMs, path: '/org' }),
      by('ip:198.51.100.1', 'rule:team:all', { timestampMs, path: '/other' }),
      by('ip:198.51.100.1', 'rule:org:acme', { timestampMs, path: '/other', ...refused }),
    ])
    for (const state of ['in the log', 'in the sums']) {
      if (state === 'in the sums') await foldRollups(database, nowMs)
      const detail = await analytics.getClient({ client: ALICE })
      assert.deepEqual([detail.requests, detail.over_limit], [3, 1], state)
      assert.deepEqual(
        detail.by_path.map(({ path }) => path),
        ['/org', '/own', '/team'],
      )
      assert.deepEqual(
        detail.by_policy.map(({ policy }) => policy),
        ['default', 'org', 'team'],
      )
      assert.equal(detail.recent_events.length, 3)
      for (const [client, count] of [
        [ALICE, 3],
        ['203.0.113.0/24', 3],
        [BOTH, 1],
      ] as const) {
        const listed = await read(searchEvents({ client }, undefined, 100, true))
        const found = await read(searchEvents({ client }, undefined, 100))
        assert.equal(listed?.events.length, count, `${client} ${state}`)
        assert.equal(found?.events.length, count, `${client} ${state}`)
      }
      const { window, top_clients } = await read(dashboardReport({ filter: { key: ALICE } }))
      assert.deepEqual([window.total, window.blocked], [3, 1])
      assert.deepEqual(
        top_clients.map(({ client, request, paths }) => [client, request?.path, paths]),
        [[ALICE, '/org', ['/org', '/own', '/team']]],
      )
      const ofPath = await read(dashboardReport({ filter: { path: '/org' } }))
      assert.deepEqual(
        ofPath.top_clients.map(({ client, over_limit }) => [client, over_limit]),
        [[ALICE, 1]],
      )
      const latest = await read(latestRequests(await analytics.getTopClients({ by: 'requests' }), { days: 7 }))
      assert.deepEqual(latest.get(ALICE)?.paths, ['/org', '/own', '/team'])
      assert.deepEqual(latest.get('ip:198.51.100.1')?.paths, ['/other'])
    }
  })

  test('the paths of an incident include those of refusals under the keys of others', async (t) => {
    const clock = fakeClock()
    const { database, close } = await open(clock)
    t.after(close)
    const its = { timestampMs: clock.now() - 10 * MINUTE_MS, allowed: false, outcome: 'over_limit' } as const
    await logRows(
      database,
      Array.from({ length: 80 }, () => by(ALICE, 'rule:org:acme', { ...its, path: '/org' })),
    )
    const [incident] = await analyticsFor(database, clock).getIncidents()
    assert.deepEqual([incident?.scope, incident?.policies, incident?.paths], [ALICE, ['org'], ['/org']])
  })

  test('the keys of a day are forgotten with its events', async (t) => {
    const clock = fakeClock()
    const { database, close } = await open(clock)
    t.after(close)
    await logRows(database, [
      by(ALICE, 'rule:org:old', { timestampMs: clock.now() - 40 * DAY_MS }),
      by(ALICE, 'rule:org:new', { timestampMs: clock.now() - HOUR_MS }),
    ])
    await foldRollups(database, clock.now())
    const keys = () =>
      database.query<{ key: string }>(`SELECT key FROM ${database.dialect.table('rate_limit_client_key')} ORDER BY key`)
    assert.deepEqual(await keys(), [{ key: 'rule:org:new' }, { key: 'rule:org:old' }])
    await cleanupOldEvents(database, clock)
    assert.deepEqual(await keys(), [{ key: 'rule:org:new' }])
  })
})
