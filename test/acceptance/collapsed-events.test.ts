/** A log with fewer rows: requests that are alike are one, allowed ones may be sums, and the reports say what they lack. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dashboardPlugin } from '../../src/dashboard.js'
import { resolveSettings } from '../../src/plugin/settings/resolve.js'
import { startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

const SUMS = { allowed: 'sums', refused: 'collapsed' } as const

forAnyDatabase((provider) => {
  test('of sums and collapsed refusals the totals, the rules and the offenders are exact, and clients are of refusals', async (t) => {
    const { app, request, call, database } = await startWithApi(t, provider, {
      plugin: { logEvents: SUMS, middleware: { defaultRate: '3/m' } },
      routes: (app) => {
        app.get('/items/:id', async () => 'ok')
        app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
      },
    })
    for (let id = 0; id < 8; id++) await request(`/items/${id}`, { from: '203.0.113.7' })
    await request('/nowhere', { from: '203.0.113.8' })
    await app.smartRateLimit.events.flush()
    const rows = await app.smartRateLimit.client.rateLimitEvent.groupBy({
      by: ['client', 'path', 'outcome'],
      _sum: { weight: true },
      _max: { count: true },
      orderBy: [{ client: 'asc' }, { path: 'asc' }],
    })
    assert.deepEqual(
      rows.map(({ client, path, outcome, _sum, _max }) => [client, path, outcome, _sum.weight, Number(_max.count)]),
      [
        ['', '', 'allowed', 1, 0],
        ['', '/items/:id', 'allowed', 3, 0],
        ['ip:203.0.113.7', '/items/3', 'over_limit', 1, 4],
        ['ip:203.0.113.7', '/items/4', 'over_limit', 1, 5],
        ['ip:203.0.113.7', '/items/5', 'over_limit', 1, 6],
        ['ip:203.0.113.7', '/items/6', 'over_limit', 1, 7],
        ['ip:203.0.113.7', '/items/7', 'over_limit', 1, 8],
      ],
    )
    for (let id = 0; id < 8; id++) await request('/items/9', { from: '203.0.113.7' })
    const summary = await app.smartRateLimit.analytics.getTrafficSummary()
    assert.equal(summary.total, 17)
    assert.equal(summary.blocked, 13)
    assert.equal(summary.only_sums, true)
    assert.deepEqual((await app.smartRateLimit.analytics.getTopOffenders())[0], {
      key: 'ip:203.0.113.7',
      blocked_count: 13,
    })
    const events = await call('GET', '/events?client=203.0.113.7&path=/items/9', { as: 'viewer' })
    const [latest] = events.json.items
    assert.ok(latest.weight >= 7, `${latest.weight}`)
    const client = await call('GET', '/reports/client?client=ip:203.0.113.7', { as: 'viewer' })
    assert.equal(client.json.recent_events[0].weight, latest.weight)
    // A row that stands for one request has no weight there.
    const several = client.json.recent_events.filter((event: object) => 'weight' in event)
    assert.ok(
      several.every(({ weight }: { weight: number }) => weight > 1) &&
        several.length < client.json.recent_events.length,
    )
    const offender = await request('/ops/dashboard/offender.html?key=ip:203.0.113.7')
    assert.match(offender.text, /Refused × [78]/)
    const clients = await request('/ops/dashboard/clients.html')
    assert.match(clients.text, /Allowed requests are only added up/)
    const csv = await request('/ops/dashboard/events.csv?path=/items/9')
    assert.match(csv.text, /\/items\/9,over_limit,default,16,3,ip:203\.0\.113\.7,[78]\r\n/)
    const page = await request('/ops/dashboard/events.html?path=/items/9')
    assert.match(page.text, /Refused × [78]/)
    const dashboard = await request('/ops/dashboard/')
    assert.match(dashboard.text, /Allowed requests are only added up/)
    const all = await request('/ops/dashboard/events.html')
    assert.match(all.text, /17 requests, in \d+ rows, newest first/)
    // The first request after a pause is written alone.
    const [row = ''] = /<tr [^>]*>(?:(?!<tr)[\s\S])*\/items\/:id(?:(?!<tr)[\s\S])*<\/tr>/.exec(all.text) ?? []
    assert.match(row, /<span class="faint">[123] allowed requests?, only added up<\/span>/)
    assert.match(row, /<span class="decision allowed">Allowed/)
    assert.doesNotMatch(row, /Why\?|0 of 0/)
    assert.match(all.text, /<span class="faint">other paths<\/span>/)
    assert.match(offender.text, /Latest 13 requests, in \d rows/)
    for (const list of ['clients', 'offenders', 'incidents']) {
      assert.equal((await call('GET', `/reports/${list}`, { as: 'viewer' })).json.only_sums, true, list)
    }
    const env = {
      RATELIMIT_DATABASE_URL: database.url,
      RATELIMIT_EVENTS_DATABASE_URL: database.events?.database ?? '',
      RATELIMIT_SCHEMA: database.schema,
    }
    const top = ['top', '--since', '2026-01-15', '--until', '2026-01-16']
    const { stdout } = await ratelimit(top, { env })
    assert.match(stdout, /ip:203\.0\.113\.7 +13 +13 [\s\S]*\nAllowed requests are only added up: /)
    assert.equal(JSON.parse((await ratelimit([...top, '--json'], { env })).stdout).only_sums, true)
    const tail = (await ratelimit(['tail'], { env })).stdout
    assert.match(tail, /allowed +\(only added up\) +default +GET \/items\/:id(?: {2}x\d)?\n/)
  })
})

test('sums tell 256 routes of a minute apart, and further ones have no path', async (t) => {
  const { app, request } = await startWithApi(t, 'sqlite', {
    plugin: { logEvents: SUMS, middleware: { defaultRate: '1000/m', backend: 'memory' } },
    routes: (app) => {
      for (let route = 0; route < 260; route++) app.get(`/route-${route}/:id`, async () => 'ok')
    },
  })
  for (let round = 0; round < 2; round++) {
    for (let route = 0; route < 260; route++) await request(`/route-${route}/${round}`)
  }
  await app.smartRateLimit.events.flush()
  const paths = await app.smartRateLimit.client.rateLimitEvent.groupBy({ by: ['path'], _sum: { weight: true } })
  assert.equal(paths.length, 257)
  assert.equal(paths.find(({ path }) => path === '')?._sum.weight, 8)
  assert.equal(paths.find(({ path }) => path === '/route-7/:id')?._sum.weight, 2)
})

test('what logEvents does not know is refused at the start, and each of both is the same as true', () => {
  for (const logEvents of [{ allowed: 'sum' }, { refused: 'sums' }, { denied: 'each' }, 'sums'] as const) {
    assert.throws(() => resolveSettings({ logEvents } as object, {}), /Setting "logEvents" is .*'collapsed'/)
  }
  assert.equal(resolveSettings({ logEvents: { refused: 'each' } }, {}).logEvents, true)
  const settings = resolveSettings({}, { RATELIMIT_LOG_EVENTS: '{"allowed":"sums"}' })
  assert.deepEqual(settings.logEvents, { allowed: 'sums', refused: 'each' })
  assert.throws(() => resolveSettings({}, { RATELIMIT_LOG_EVENTS: '{"allowed":' }), /Setting "RATELIMIT_LOG_EVENTS" is/)
})
