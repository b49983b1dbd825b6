/** A reset of a client forgets all counters of it, in limits, rules and overrides, however it is asked for. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { startWithApi } from '../support/api-app.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { openTestRedis, redisMissing } from '../support/redis.js'
import { ratelimit } from '../support/scripts.js'
import { openForms } from '../support/staff-forms.js'

const ALICE = '203.0.113.7'
const HEADERS = { authorization: '{"id":7,"org":"acme"}', 'x-api-key': 'k1' }
const DAY = '1/366d'

/** The clients that the limits of `RULES` count the request of `HEADERS` as, by the path of the rule. */
const CLIENTS = {
  '/address': `ip:${ALICE}`,
  '/user': 'user:7',
  '/field': 'user.org:acme',
  '/header': 'header:x-api-key:k1',
  '/both': `ip:${ALICE}|user:7`,
}
const RULES = [
  { name: 'address', pathPattern: '^/address', key: 'ip' },
  { name: 'user', pathPattern: '^/user', key: 'user' },
  { name: 'field', pathPattern: '^/field', key: 'user.org' },
  { name: 'header', pathPattern: '^/header', key: 'header:X-Api-Key' },
  { name: 'both', pathPattern: '^/both', key: 'ip+user' },
].map((rule) => ({ ...rule, rate: DAY }))

const USER: RateLimitOptions['user'] = ({ headers: { authorization } }) =>
  authorization?.startsWith('{') ? JSON.parse(authorization) : null

type Started = Pick<Awaited<ReturnType<typeof startApp>>, 'app' | 'request'>

/** Uses up the limit of each path, resets a client, and returns which paths are free again. */
async function freedBy({ request }: Started, paths: readonly string[], reset: () => Promise<unknown>) {
  const ask = async (path: string) => (await request(path, { from: ALICE, headers: HEADERS })).status
  for (const path of paths) {
    await ask(path)
    assert.equal(await ask(path), 429, path)
  }
  await reset()
  const freed: string[] = []
  for (const path of paths) if ((await ask(path)) === 200) freed.push(path)
  return freed
}

async function addRules({ app }: Started) {
  await app.smartRateLimit.client.rateLimitRule.createMany({ data: RULES })
  await app.smartRateLimit.rules.reload()
}

const PLUGIN: RateLimitOptions = { useDynamicRules: true, user: USER, middleware: { defaultRate: DAY } }

async function start(t: TestContext, provider: Provider, others: RateLimitOptions = {}) {
  const database = await openDatabase(t, provider)
  const plugin = { ...PLUGIN, ...others, middleware: { ...PLUGIN.middleware, ...others.middleware } }
  const started = await startApp(t, {
    database,
    plugin,
    routes(app) {
      app.get('/*', async () => 'ok')
      const onRequest = app.smartRateLimit.limit({ name: 'own', rate: DAY })
      app.get('/own', { onRequest, config: { smartRateLimit: false } }, async () => 'ok')
      app.get('/config', { config: { smartRateLimit: { rate: DAY } } }, async () => 'ok')
    },
  })
  await addRules(started)
  return { ...started, database }
}

forEachDatabase((provider) => {
  for (const backend of ['database', 'memory', 'redis'] as const) {
    const skip = backend === 'redis' && redisMissing
    test(`reset() frees each kind of client in all limits and in every rule, with counters in ${backend}`, {
      skip,
    }, async (t) => {
      const { url: redis, namespace, close } = openTestRedis()
      atEnd(t, close)
      const started = await start(t, provider, {
        ...(backend === 'redis' && { redis, namespace }),
        middleware: { backend },
      })
      const { reset } = started.app.smartRateLimit
      const paths = ['/', '/own', ...Object.keys(CLIENTS)]
      assert.deepEqual(await freedBy(started, paths, () => reset(`ip:${ALICE}`)), ['/', '/own', '/address'])
      // It counts beside the default limit, which is free as well.
      await reset(`ip:${ALICE}`)
      assert.deepEqual(await freedBy(started, ['/config'], () => reset(`ip:${ALICE}`)), ['/config'])
      for (const [path, client] of Object.entries(CLIENTS).slice(1)) {
        assert.deepEqual(await freedBy(started, paths, () => reset(client)), [path], client)
      }
      assert.deepEqual(await freedBy(started, paths, () => reset(`rule:address:${ALICE}`)), ['/address'])
    })
  }

  test('the API, the page of counters and the command take the same clients, and forget as much', async (t) => {
    const api = await startWithApi(t, provider, { plugin: PLUGIN, routes: (app) => app.get('/*', async () => 'ok') })
    await addRules(api)
    const forms = await openForms(t, provider, 'operator', PLUGIN)
    await addRules(forms)
    for (const [path, client] of Object.entries(CLIENTS)) {
      const freed = await freedBy(api, [path], () =>
        api.call('POST', '/counters/reset', { as: 'operator', json: { client } }),
      )
      assert.deepEqual(freed, [path], client)
      const onPage = await freedBy(forms, [path], async () => {
        const page = await forms.open(`counters.html?q=${encodeURIComponent(client)}`)
        assert.match(page.text, new RegExp(`rule ${path.slice(1)}`))
        return page.submit({ client }, {}, 'counters.html')
      })
      assert.deepEqual(onPage, [path], client)
    }
    // Its clients have counters of their own.
    const network = await api.call('POST', '/counters/reset', { as: 'operator', json: { client: '203.0.113.0/24' } })
    assert.equal(network.status, 400)
    const { database } = api
    const [path, client] = ['/field', 'user.org:acme']
    const freed = await freedBy(api, [path], async () => {
      const env = { RATELIMIT_DATABASE_URL: database.url }
      const { stderr } = await ratelimit(['counters', 'reset', '--schema', database.schema, client], { env })
      assert.equal(stderr, '')
      api.app.smartRateLimit.rules.invalidateCache()
      api.clock.advance(2_000)
    })
    assert.deepEqual(freed, [path])
  })

  test('an address of IPv6 frees its network, which is counted as one client', async (t) => {
    const started = await start(t, provider)
    const { app, request } = started
    const ask = async () => (await request('/address', { from: '2001:db8::7' })).status
    for (const spelled of ['ip:2001:db8::7', 'ip:2001:db8::/64']) {
      await ask()
      assert.equal(await ask(), 429)
      await app.smartRateLimit.reset(spelled)
      assert.equal(await ask(), 200, spelled)
    }
  })

  test('a client is free in the last of thousands of rules, and in one that was just written', async (t) => {
    const started = await start(t, provider)
    const { app } = started
    const { rateLimitRule } = app.smartRateLimit.client
    await rateLimitRule.createMany({
      data: Array.from({ length: 1_500 }, (_, index) => ({
        name: `rule-${index}`,
        pathPattern: `^/path-${index}$`,
        rate: DAY,
        priority: -index,
      })),
    })
    await app.smartRateLimit.rules.reload()
    const paths = ['/path-0', '/path-1499']
    assert.deepEqual(await freedBy(started, paths, () => app.smartRateLimit.reset(`ip:${ALICE}`)), paths)
  })
})
