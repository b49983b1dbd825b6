/** What is left of limits in tokens: in code, through the API, on the pages and by command. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { dashboardPlugin } from '../../src/dashboard.js'
import type { RateLimitOptions } from '../../src/index.js'
import { pluginParts } from '../../src/plugin/parts.js'
import { startWithApi } from '../support/api-app.js'
import { unescapeHtml } from '../support/client-forms.js'
import { eventually } from '../support/eventually.js'
import { ratelimit } from '../support/scripts.js'
import '../support/compiled-templates.js'

const ALICE = { path: '/chat', ip: '203.0.113.7', user: 'alice' } as const

/** An app whose requests charge what their header says; `/batch` has a limit in code. */
async function start(t: TestContext, rule: object = {}, plugin: RateLimitOptions = {}) {
  const started = await startWithApi(t, 'sqlite', {
    plugin: {
      user: ({ headers }) => (headers['x-user'] === undefined ? null : { id: String(headers['x-user']) }),
      middleware: { defaultRate: '1000/m' },
      ...plugin,
    },
    routes: (app) => {
      const { limit, charge } = app.smartRateLimit
      const tokens = (request: Parameters<typeof charge>[0]) =>
        charge(request, { tokens: Number(request.headers['x-tokens']) })
      app.get('/chat', tokens)
      const batch = limit({ name: 'batch', rate: '5000/h', key: 'user', unit: 'tokens', reserve: 2_000 })
      app.get('/batch', { onRequest: batch }, tokens)
      app.register(dashboardPlugin, { prefix: '/ops', isStaff: () => true })
    },
  })
  await started.app.smartRateLimit.client.rateLimitRule.create({
    data: {
      name: 'budget',
      group: 'budget',
      rate: '10000/d',
      unit: 'tokens',
      reserve: 1_500,
      key: 'user',
      pathPattern: '^/chat',
      ...rule,
    },
  })
  const { explain } = started.app.smartRateLimit
  return {
    ...started,
    /** Charges alice for a request, and writes her usage. */
    async use(tokens: number, path = '/chat') {
      const headers = { 'x-user': 'alice', 'x-tokens': String(tokens) }
      const { status } = await started.request(path, { headers, from: ALICE.ip })
      await pluginParts(started.app).usage?.flush()
      return status
    },
    async budget() {
      return (await explain(ALICE)).limits.find(({ policy }) => policy === 'budget')
    },
    async page(address: string) {
      const { status, text } = await started.request(`/ops/dashboard/${address}`)
      assert.equal(status, 200)
      const [main = ''] = /<main[\s\S]*<\/main>/.exec(text) ?? []
      return unescapeHtml(main.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' '))
    },
  }
}

test('an explanation names the unit, what the request reserves, and what is left of it, everywhere', async (t) => {
  const { app, use, budget, page, call, database } = await start(t)
  assert.equal(await use(8_234), 200)
  const expected = {
    policy: 'budget',
    group: 'budget',
    rate: '10000/d',
    unit: 'tokens',
    applies: true,
    why: 'The rule matches the request. The request reserves 1,500 tokens.',
    cost: 1_500,
    count: 8_234,
    limit: 10_000,
    remaining: 1_766,
  }
  assert.deepEqual(await budget(), expected)
  assert.deepEqual((await call('POST', '/explain', { as: 'viewer', json: ALICE })).json.limits.at(-1), expected)
  const shown = await page('explain.html?path=/chat&ip=203.0.113.7&user=alice')
  assert.match(shown, / 10000\/d tokens Applies The rule matches .* 1,766 of 10,000 tokens left /)
  assert.match(shown, /The client has 1,766 of 10,000 tokens left, and the request takes 1,500: .* within the limit\./)
  assert.match(await page('client.html?client=user:alice'), / budget 10000\/d tokens 1,766 of 10,000 tokens left now /)

  assert.match(await page('rules.html'), / \^\/chat 10000\/d tokens /)

  const args = ['explain', '--schema', database.schema, '--path', '/chat', '--user', 'alice']
  const { stdout } = await ratelimit(args, { env: { RATELIMIT_DATABASE_URL: database.url } })
  // Its clock is that of the machine, on another day.
  assert.match(stdout, /\* +0 +10,000 +10000\/d tokens +budget +budget +The rule matches the request\./)

  const other = (await app.smartRateLimit.explain({ path: '/', user: 'alice' })).limits.at(-1)
  assert.deepEqual([other?.policy, other?.unit, other?.applies, other?.cost], ['budget', 'tokens', false, null])
})

test('a client that the log does not have is shown with what is left of what it was charged by', async (t) => {
  const { use, page } = await start(t, {}, { logEvents: false, usage: ['tokens'] })
  assert.equal(await use(3_000), 200)
  const shown = await page('client.html?client=user:alice')
  assert.match(shown, / No requests in the last 7 days .* budget 10000\/d tokens 7,000 of 10,000 tokens left now /)
  assert.match(shown, / tokens left now Decided no request of the log .* 2026-01-15 tokens 3,000 1 /)
  assert.doesNotMatch(await page('client.html?client=user:bob'), /budget/)
})

test('a request that reserves more than is left is over the limit, although something is left', async (t) => {
  const { app, use, budget, page } = await start(t)
  assert.equal(await use(9_000), 200)
  assert.equal((await app.smartRateLimit.explain(ALICE)).decided_by, 'budget')
  const shown = await page('explain.html?path=/chat&ip=203.0.113.7&user=alice')
  assert.match(shown, / Decided by budget\. .*left, and the request takes 1,500: the request is over the limit\./)
  assert.equal(await use(1), 429)
  assert.equal((await budget())?.count, 9_000, 'the refused one took nothing')
})

test('a client in debt is shown with what it has used', async (t) => {
  const { use, budget, page } = await start(t, { reserve: 0 })
  assert.equal(await use(25_000), 200)
  const { count, limit, remaining } = (await budget()) ?? {}
  assert.deepEqual([count, limit, remaining], [25_000, 10_000, 0])
  assert.match(await page('client.html?client=user:alice'), / 0 of 10,000 tokens left, 25,000 used now /)
})

test('a limit of a route in code is explained alike', async (t) => {
  const { app, use } = await start(t)
  assert.equal(await use(3_500, '/batch'), 200)
  await eventually('the rest is given back', async () => {
    const { decided_by, limits } = await app.smartRateLimit.explain({ ...ALICE, path: '/batch' })
    const { policy, unit, cost, remaining } = limits.at(-1) ?? {}
    assert.deepEqual([policy, unit, cost], ['batch', 'tokens', 2_000])
    return remaining === 1_500 && decided_by === 'batch'
  })
})

test('a rate in tokens is never what a client is raised from', async (t) => {
  const { request, use } = await start(t, { group: '' })
  assert.equal(await use(10_000), 200)
  assert.equal(await use(0), 429)
  const { text } = await request('/ops/dashboard/client.html?client=user:alice')
  assert.doesNotMatch(text, /20000/)
})
