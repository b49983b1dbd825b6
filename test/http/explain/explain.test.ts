/** What would become of a request, and why: the limits in the order of deciding, without charging any. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { InvalidSettingError } from '../../../src/ground/errors.js'
import { CooperativeYield } from '../../../src/ground/time/cooperative-yield.js'
import type { Explanation } from '../../../src/http/explain/explain.js'
import type { RateLimitOptions } from '../../../src/plugin/settings/options.js'
import { atEnd } from '../../support/at-end.js'
import { startApp } from '../../support/build-app.js'
import { forAnyDatabase } from '../../support/databases.js'

const IP = '203.0.113.7'

forAnyDatabase((_provider, open) => {
  test('limits are listed in their order, with what decides and why the others do not', async (t) => {
    const { app, rules, request } = await start(t, {
      middleware: {
        defaultRate: '100/m',
        rateLimits: { '/auth/': '5/m', '/auth/admin/': '3/m' },
        ceiling: '600/m',
        denyList: ['192.0.2.0/24'],
        allowList: ['198.51.100.7'],
      },
    })
    await rules([
      { name: 'login', pathPattern: '^/login$', method: 'POST', rate: '10/m, 100/h', priority: 5 },
      { name: 'tenants', pathPattern: '^/', condition: "request.headers['x-tenant'] == 'acme'", rate: '7/30s' },
      { name: 'late', pathPattern: '^/', rate: '1/d', startsAt: new Date(Date.UTC(2040, 0, 1)), priority: -1 },
      { name: 'items', pathPattern: '^/items/', rate: '50/m', key: 'route', priority: -2 },
    ])
    const listed = (explanation: Awaited<ReturnType<typeof app.smartRateLimit.explain>>) =>
      explanation.limits.map(({ policy, rate, applies, count, remaining }) => [policy, rate, applies, count, remaining])

    await request('/login', { method: 'POST', from: IP })
    await request('/login', { method: 'POST', from: IP })
    const login = await app.smartRateLimit.explain({ method: 'POST', path: '/login?next=/', ip: IP })
    assert.equal(login.decided_by, 'login')
    assert.deepEqual(listed(login), [
      ['deny-list', null, false, null, null],
      ['override', null, false, null, null],
      ['allow-list', null, false, null, null],
      ['login', '10/m, 100/h', true, 2, 8],
      ['tenants', '7/30s', false, null, null],
      ['late', '1/d', false, null, null],
      ['items', '50/m', false, null, null],
      ['/auth/admin/', '3/m', false, null, null],
      ['/auth/', '5/m', false, null, null],
      ['default', '100/m', false, null, null],
      ['ceiling', '600/m', true, 2, 598],
    ])
    assert.deepEqual(
      login.limits.map(({ why }) => why),
      [
        'The address is not on the deny list.',
        'No override in force is for this client and path.',
        'The address is not on the allow list.',
        'The rule matches the request.',
        'The condition is false.',
        'The rule is not in force at this time.',
        'The path does not match ^/items/.',
        'The path is not below /auth/admin/, or a longer prefix decides.',
        'The path is not below /auth/, or a longer prefix decides.',
        '"login" decides before it.',
        'It counts every checked request of the address, beside what else decides.',
      ],
    )

    const decider = async (options: Parameters<typeof app.smartRateLimit.explain>[0]) => {
      const { decided_by, limits } = await app.smartRateLimit.explain(options)
      assert.deepEqual(
        limits.filter(({ applies, policy }) => applies && policy !== 'ceiling').map(({ policy }) => policy),
        decided_by === null ? [] : [decided_by],
      )
      return decided_by
    }
    assert.equal(await decider({ path: '/login', ip: IP }), 'default')
    assert.equal(await decider({ path: '/auth/admin/x', ip: IP }), '/auth/admin/')
    assert.equal(await decider({ path: '/', headers: { 'X-Tenant': 'acme' }, ip: IP }), 'tenants')
    assert.equal(await decider({ path: '/', ip: '192.0.2.9' }), 'deny-list')
    assert.equal(await decider({ path: '/', ip: '198.51.100.7' }), 'allow-list')
    assert.equal(await decider({ path: '/items/7' }), 'items')

    const { client } = app.smartRateLimit
    await client.rateLimitOverride.create({
      data: { client: `ip:203.0.113.0/24`, effect: '20/m', pathPattern: '^/slow' },
    })
    await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
    await client.rateLimitOverride.create({ data: { client: 'user:8', effect: 'allow' } })
    const slow = await app.smartRateLimit.explain({ path: '/slow', ip: IP })
    const override = slow.limits.find(({ policy }) => policy === 'override')
    assert.deepEqual(override, {
      policy: 'override',
      group: '',
      rate: '20/m',
      unit: 'requests',
      applies: true,
      why: 'An override sets the rate of ip:203.0.113.0/24.',
      cost: 1,
      count: 0,
      limit: 20,
      remaining: 20,
    })
    assert.equal(await decider({ path: '/slow', ip: IP, user: 7 }), 'override')
    assert.equal(await decider({ path: '/slow', ip: IP, user: { id: '8' } }), 'override')
  })

  test('an explanation says what the next request is answered, and charges nothing', async (t) => {
    const { app, request, statuses } = await start(t, { middleware: { defaultRate: '2/m', ceiling: '4/m' } })
    for (let times = 0; times < 5; times++) await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.deepEqual(await statuses(2, '/', { from: IP }), [200, 200])
    const full = await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.deepEqual(
      full.limits.filter(({ applies }) => applies).map(({ policy, count, remaining }) => [policy, count, remaining]),
      [
        ['default', 2, 0],
        ['ceiling', 2, 2],
      ],
    )
    await request('/', { from: IP })
    await request('/', { from: IP })
    const { limits } = await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.deepEqual(limits.at(-1)?.remaining, 0)
    const events = await app.smartRateLimit.client.rateLimitEvent.count()
    await app.smartRateLimit.events.flush()
    assert.ok(events <= 4)
    assert.equal(await app.smartRateLimit.client.rateLimitEvent.count(), 4)
  })

  test('a ceiling that refuses at once keeps the other limits from being asked', async (t) => {
    const { app, statuses } = await start(t, { middleware: { backend: 'memory', defaultRate: '5/m', ceiling: '2/m' } })
    assert.deepEqual(await statuses(3, '/', { from: IP }), [200, 200, 429])
    const { limits, decided_by } = await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.equal(decided_by, 'ceiling')
    const { why } = limits.find(({ policy }) => policy === 'default') ?? {}
    assert.equal(why, 'The ceiling refuses, and no other limit is asked.')
  })

  test('requests in progress are counted in an explanation, which takes no permit', async (t) => {
    const { app, request, rules } = await start(t, { middleware: { ceiling: '600/m' } })
    await rules([{ name: 'uploads', pathPattern: '^/', rate: '3/60s', algorithm: 'concurrency' }])
    const standing = ({ limits }: Awaited<ReturnType<typeof app.smartRateLimit.explain>>) =>
      limits.filter(({ applies }) => applies).map(({ policy, count, remaining }) => [policy, count, remaining])
    for (const requests of [1, 2]) {
      const inProgress = JSON.parse((await request('/explained', { from: IP })).text)
      assert.deepEqual(standing(inProgress), [
        ['uploads', 1, 2],
        ['ceiling', requests, 600 - requests],
      ])
    }
    const explanation = await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.equal(explanation.decided_by, 'uploads')
    assert.deepEqual(standing(explanation)[0], ['uploads', 0, 3])
  })

  test('requests that no limit checks are explained as well, and hooks of the app do not run', async (t) => {
    let hooked = 0
    const { app } = await start(
      t,
      {
        middleware: { skipPaths: ['/health'], defaultRate: () => '3/m' },
        skip: (request) => request.headers['x-internal'] === 'yes',
      },
      () => hooked++,
    )
    const why = async (options: Parameters<typeof app.smartRateLimit.explain>[0]) => {
      const { decided_by, limits } = await app.smartRateLimit.explain(options)
      assert.equal(decided_by, null)
      assert.ok(limits.every(({ applies, count }) => !applies && count === null))
      return limits.at(-1)?.why
    }
    assert.equal(await why({ path: '/health' }), 'The path is in skipPaths.')
    assert.equal(await why({ path: '/free/9' }), 'The route has opted out of the check.')
    assert.equal(await why({ path: '/', headers: { 'x-internal': 'yes' } }), 'The option "skip" exempts the request.')
    const { limits, decided_by } = await app.smartRateLimit.explain({
      path: '/nowhere',
      ip: IP,
      headers: { Host: 'a.example' },
    })
    assert.deepEqual([decided_by, limits.at(-1)?.rate, limits.at(-1)?.remaining], ['default', null, 3])
    assert.equal(hooked, 0)
  })

  test('of a request that the plugin skips, the limits of its route decide, and their deny list', async (t) => {
    const denied = '192.0.2.9'
    const { app, request } = await start(t, {
      middleware: { defaultRate: '10/m', denyList: [denied] },
      skip: ({ routeOptions }) => routeOptions.url === '/exports/:id',
    })
    const explained = async (ip: string) => {
      const { decided_by, limits } = await app.smartRateLimit.explain({ path: '/exports/7', ip })
      return [decided_by, ...limits.filter(({ applies }) => applies).map(({ policy }) => policy)]
    }
    assert.deepEqual(await explained(IP), ['per-user', 'exports', 'per-user'])
    assert.equal((await request('/exports/7', { from: denied })).status, 403)
    assert.deepEqual(await explained(denied), ['deny-list', 'deny-list'])
    const { decided_by } = await app.smartRateLimit.explain({ path: '/', ip: denied })
    assert.equal(decided_by, 'deny-list')
  })

  test('the limits of a route are explained behind the plugin, with the user and the address that are given', async (t) => {
    const { app, request } = await start(t, { middleware: { defaultRate: '10/m' } })
    const applying = async (options: Parameters<typeof app.smartRateLimit.explain>[0]) => {
      const { decided_by, limits } = await app.smartRateLimit.explain(options)
      const applying = limits.filter(({ applies }) => applies)
      return [decided_by, ...applying.map(({ policy, rate, remaining }) => `${policy} ${rate} ${remaining}`)]
    }
    const export7 = { method: 'GET', path: '/exports/7', ip: IP } as const
    assert.deepEqual(await applying(export7), ['default', 'default 10/m 10', 'exports 2/m 2', 'per-user 1/h 1'])
    await request('/exports/7', { from: IP })
    // The limit by user counts the address of who has none.
    assert.deepEqual(await applying(export7), ['per-user', 'default 10/m 9', 'exports 2/m 1', 'per-user 1/h 0'])
    const alice = { ...export7, user: 'alice' }
    assert.deepEqual(await applying(alice), ['default', 'default 10/m 9', 'exports 2/m 1', 'per-user 1/h 1'])
    const other = { ...export7, ip: '192.0.2.1' }
    assert.deepEqual(await applying(other), ['default', 'default 10/m 10', 'exports 2/m 2', 'per-user 1/h 1'])
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${IP}`, effect: 'deny' } })
    assert.equal((await applying(export7))[0], 'override')
  })

  test('the route of an explained request is that of its version and host', async (t) => {
    const { app } = await start(t, { middleware: { defaultRate: '10/m' } }, undefined, (scope) => {
      const limited = (name: string) => ({ config: { smartRateLimit: { rate: '2/m', name } } })
      scope.get('/v', { ...limited('old'), constraints: { version: '1.2.0' } }, async () => 'ok')
      scope.get('/v', { ...limited('new'), constraints: { version: '2.0.0', host: 'a.example' } }, async () => 'ok')
      scope.route({ ...limited('both'), method: ['PUT', 'PATCH'], url: '/v/*', handler: async () => 'ok' })
    })
    const last = async (path: string, headers: Record<string, string | string[]> = {}, method = 'GET') =>
      (await app.smartRateLimit.explain({ path, headers, method, ip: IP })).limits.at(-1)?.policy
    assert.equal(await last('/v', { 'Accept-Version': '1.x' }), 'old')
    assert.equal(await last('/v?a=1', { 'accept-version': ['2.x'], HOST: 'a.example' }), 'new')
    assert.equal(await last('/v', { 'accept-version': '2.x', host: 'b.example' }), 'default')
    assert.equal(await last('/v/%65', {}, 'PATCH'), 'both')
    assert.equal(await last('/v/e'), 'default')
  })

  test('an absolute-form is explained by its path, as the hook decides it', async (t) => {
    const { app, rules } = await start(t, { middleware: { defaultRate: '100/m' } })
    await rules([{ name: 'absolute', pathPattern: '^/abs$', rate: '7/m' }])
    const decidedBy = async (path: string) => (await app.smartRateLimit.explain({ path, ip: IP })).decided_by
    assert.equal(await decidedBy('http://other.example/abs?x=1'), 'absolute')
    assert.equal(await decidedBy('HTTPS://other.example?x=/abs'), 'default')
  })

  test('a request that cannot be is refused with the reason', async (t) => {
    const { app } = await start(t, {})
    const { explain } = app.smartRateLimit
    for (const [options, message] of [
      [{ path: 'login' }, /Option "path" is "login"/],
      [{ path: '' }, /Option "path"/],
      [{ path: 7 as unknown as string }, /Option "path"/],
      [{ path: '/', method: 'get' }, /Option "method" is "get"/],
      [{ path: '/', ip: 7 as unknown as string }, /Option "ip" is 7/],
      [{ path: '/', ip: 'nowhere' }, /Option "ip" is "nowhere"/],
      [{ path: '/%zz' }, /Option "path" is "\/%zz": the router answers 400/],
    ] as const) {
      await assert.rejects(
        explain(options),
        (error) => error instanceof InvalidSettingError && message.test(error.message),
      )
    }
    for (const path of [`/${'a'.repeat(9_000)}`, '/?', '//', '/ä', '/\u0000', '/a b', '/#x']) {
      assert.equal((await explain({ path, headers: { 'x-a': ['1', '2'] } })).decided_by, 'default', path)
    }
  })

  test('an explanation among many rules lets other work go on', async (t) => {
    const { app, rules } = await start(t, {})
    const condition = "request.headers['x-a'] == 'b'"
    await rules(
      Array.from({ length: 200 }, (_, number) => ({ name: `r${number}`, pathPattern: '^/', rate: '1/s', condition })),
    )
    // Each look at the clock finds a millisecond more: a slice is over after eight rules.
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => ++nowMs)
    const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
    const { limits } = await app.smartRateLimit.explain({ path: '/', ip: IP })
    assert.equal(limits.length, 202)
    assert.ok(mock.callCount() >= 20, `other work could run ${mock.callCount()} times`)
  })

  test('an explanation searches a path for the patterns of all rules with the work of one request', async (t) => {
    const { app, rules } = await start(t, {})
    await rules([
      { name: 'all', pathPattern: '^/', rate: '1/s', priority: 1 },
      ...Array.from({ length: 60 }, (_, number) => ({
        name: `r${number}`,
        pathPattern: `(?:[a-z]+/)*x{1,20}${number}$`,
        rate: '1/s',
      })),
    ])
    const short = await app.smartRateLimit.explain({ path: '/a/xx7', ip: IP })
    assert.deepEqual(whyOf(short, 'r7'), '"all" decides before it.')
    assert.equal(whyOf(short, 'r8'), 'The path does not match (?:[a-z]+/)*x{1,20}8$.')
    const long = await app.smartRateLimit.explain({ path: `/${'a/'.repeat(1_500)}xx7`, ip: IP })
    assert.equal(long.decided_by, 'all')
    assert.equal(whyOf(long, 'all'), 'The rule matches the request.')
    assert.equal(whyOf(long, 'r7'), 'The path is too long to be searched for the patterns of all rules.')
  })

  async function start(
    t: TestContext,
    plugin: RateLimitOptions,
    onHook = () => 0,
    declare: (app: FastifyInstance) => void = () => undefined,
  ) {
    const database = await open()
    atEnd(t, database.close)
    const started = await startApp(t, {
      database,
      plugin: { useDynamicRules: true, logEvents: true, ...plugin },
      routes: (app) => {
        app.addHook('onRequest', async () => void onHook())
        declare(app)
        app.get('/', async () => 'ok')
        app.post('/login', async () => 'ok')
        app.get('/items/:id', async () => 'ok')
        const perUser = app.smartRateLimit.limit({ rate: '1/h', key: 'user', name: 'per-user' })
        const exports = { rate: '2/m', name: 'exports' }
        app.get('/exports/:id', { config: { smartRateLimit: exports }, onRequest: perUser }, async () => 'ok')
        app.get('/explained', async () => app.smartRateLimit.explain({ path: '/', ip: IP }))
        app.get('/free/:id', { config: { smartRateLimit: false } }, async () => 'ok')
      },
    })
    const { client } = started.app.smartRateLimit
    return {
      ...started,
      rules: (data: Parameters<typeof client.rateLimitRule.createMany>[0]['data']) =>
        client.rateLimitRule.createMany({ data }),
    }
  }
})

function whyOf({ limits }: Explanation, name: string): string | undefined {
  return limits.find(({ policy }) => policy === name)?.why
}
