/** Incidents as the API lists them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import { startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'

forAnyDatabase((provider) => {
  test('incidents are those of a range, and a wrong range is named', async (t) => {
    const { call, database, clock } = await startWithApi(t, provider)
    const atMs = clock.now() - 5 * HOUR_MS
    await logRows(
      database.database,
      Array.from({ length: 60 }, () => ({ timestampMs: atMs, allowed: false, outcome: 'over_limit' as const })),
    )
    const list = async (query = '') => call('GET', `/reports/incidents${query}`, { as: 'viewer' })

    const { status, json } = await list()
    assert.equal(status, 200)
    const [{ id, from, to, ...incident }] = json.incidents
    assert.match(id, /^[\da-f]{20}$/)
    assert.ok(Date.parse(from) <= atMs && atMs < Date.parse(to))
    assert.deepEqual(incident, {
      scope: 'ip:203.0.113.7',
      state: 'over',
      policies: ['default'],
      paths: ['/'],
      refused: 60,
      denied: 0,
      clients: 1,
    })
    const iso = (ms: number) => encodeURIComponent(new Date(ms).toISOString())
    const before = await list(`?since=${iso(atMs - 9 * HOUR_MS)}&until=${iso(atMs - 2 * HOUR_MS)}`)
    assert.deepEqual(before.json, { incidents: [] })
    assert.equal((await list(`?since=${iso(atMs - HOUR_MS)}`)).json.incidents.length, 1)
    for (const query of [
      '?since=yesterday',
      '?until=2026-01-01T00:00:00Z',
      '?days=3',
      `?since=${iso(2)}&until=${iso(1)}`,
    ]) {
      assert.equal((await list(query)).status, 400, query)
    }
  })
})
