/** What the panel opens with. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { logEvents } from '../support/events.js'
import { PANEL, type PanelAppOptions, startWithPanel } from '../support/panel-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)

interface Home {
  readonly notices: readonly string[]
  readonly tiles: readonly { readonly label: string; readonly value: string; readonly detail: string }[]
  readonly empty: string
}

async function start(t: Parameters<typeof startWithPanel>[0], plugin: PanelAppOptions['plugin'] = {}) {
  const started = await startWithPanel(t, 'sqlite', { plugin })
  const headers = await started.asStaff()
  async function home(): Promise<Home> {
    const { status, text } = await started.request(`${PANEL}/api/dashboard`, { headers })
    assert.equal(status, 200, text)
    return JSON.parse(text)
  }
  return { ...started, home }
}

test('requests and refusals are counted, and nothing has to be explained', async (t) => {
  const { home, statuses } = await start(t, { middleware: { defaultRate: '2/m' } })
  await statuses(3, '/api/orders')
  const { notices, tiles } = await home()
  assert.deepEqual(notices, [])
  assert.deepEqual(tiles[2], {
    label: 'Requests, last 24 hours',
    value: '3',
    detail: '1 over the limit (33.3%)',
    resource: 'events',
  })
})

test('requests that are denied are requests, as on the dashboard', async (t) => {
  const { home, database, statuses } = await start(t, { useDynamicRules: true })
  await database.client.rateLimitOverride.create({ data: { client: 'ip:127.0.0.1', effect: 'deny' } })
  await statuses(2, '/api/orders')
  const [, , { value, detail } = {}] = (await home()).tiles
  assert.deepEqual([value, detail], ['2', '0 over the limit (0% of those not denied), 2 denied'])
})

test('of a log of refusals alone, refusals are counted without a rate, and a notice says why', async (t) => {
  const { home, database, statuses } = await start(t, { logEvents: 'blocked', middleware: { defaultRate: '2/m' } })
  await statuses(5, '/api/orders')
  const { notices, tiles } = await home()
  assert.match(notices.join(), /^Only refusals are logged: while logEvents is 'blocked', [^.]*\.$/)
  assert.deepEqual(tiles[2], { label: 'Over the limit, last 24 hours', value: '3', detail: '', resource: 'events' })

  const rule = { name: 'watched', pathPattern: '^/api/', rate: '0/m', block: false }
  await database.client.rateLimitRule.create({ data: rule })
  await statuses(2, '/api/orders')
  const [, , { value, detail } = {}] = (await home()).tiles
  assert.deepEqual([value, detail], ['3', '2 over a limit let through'])
})

test('a server that logs nothing says what to switch on, and whose requests it shows', async (t) => {
  const { home, database, statuses } = await start(t, { logEvents: false, middleware: { defaultRate: '0/m' } })
  await statuses(1, '/api/orders')
  const { notices, empty } = await home()
  assert.match(notices.join(), /logs no requests: they are logged while logEvents, or RATELIMIT_LOG_EVENTS, is true\.$/)
  assert.equal(empty, 'No refusals are logged.')

  await logEvents(database.client, { key: 'ip:203.0.113.7', blocked: 1, atMs: NOW_MS - 1 })
  assert.match((await home()).notices.join(), /The numbers shown were logged earlier, or by other servers\.$/)
})

test('a server on which the limiter is off, or rules are, says so', async (t) => {
  const { home } = await start(t, { enabled: false, useDynamicRules: false, logEvents: false })
  assert.match((await home()).notices.join(), /^Rules and overrides are off [^.]*\.,The limiter is off [^.]*\.$/)
})
