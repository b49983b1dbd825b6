/** Usage as the API lists it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pluginParts } from '../../src/plugin/parts.js'
import { startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { charge } from '../support/usage.js'

forAnyDatabase((provider) => {
  test('usage of a month is listed page by page, and a wrong parameter is named', async (t) => {
    const { app, call, clock } = await startWithApi(t, provider)
    const { usage } = pluginParts(app)
    const atMs = clock.now()
    const month = new Date(atMs).toISOString().slice(0, 7)
    for (const [client, amount] of [
      ['user:1', 5],
      ['user:2', 9],
      ['user:3', 5],
    ] as const) {
      usage?.record(charge({ client, amount, atMs }))
    }
    const list = (query: string) => call('GET', `/reports/usage?${query}`, { as: 'viewer' })

    const first = await list('unit=tokens&limit=2')
    assert.equal(first.status, 200)
    const { rows, cursor } = first.json
    assert.deepEqual(rows, [
      { client: 'user:2', amount: 9, requests: 1 },
      { client: 'user:1', amount: 5, requests: 1 },
    ])
    assert.deepEqual((await list(`unit=tokens&limit=2&cursor=${cursor}`)).json, {
      rows: [{ client: 'user:3', amount: 5, requests: 1 }],
      cursor: null,
    })
    assert.deepEqual((await list(`unit=tokens&by=month&since=${month}-01T00:00:00Z&client=user:3`)).json.rows, [
      { month, amount: 5, requests: 1 },
    ])
    for (const [query, field] of [
      ['', 'unit'],
      ['unit=Tokens', 'unit'],
      ['unit=tokens&by=year', 'by'],
      ['unit=tokens&cursor=abc', 'cursor'],
      ['unit=tokens&since=2026-02-01T00:00:00Z&until=2026-01-01T00:00:00Z', 'since'],
      ['unit=tokens&until=2026-01-01T00:00:00Z', 'since'],
      ['unit=tokens&since=yesterday', 'since'],
      ['unit=tokens&limit=0', 'limit'],
    ] as const) {
      const { status, json } = await list(query)
      assert.deepEqual([status, json.errors[0].field], [400, field], query)
    }
  })
})
