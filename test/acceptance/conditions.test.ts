/** Rules are for some requests of a path only: those for which their condition holds. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyRequest } from 'fastify'
import { Registry } from 'prom-client'
import { type RateLimitOptions, RuleValidationError } from '../../src/index.js'
import { type AppOptions, okRoutes, openDatabase, startApp, WARN } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { figuresOf } from '../support/exposition.js'
import { long } from '../support/long.js'

const USERS: Readonly<Record<string, object>> = {
  alice: { id: 1, plan: 'free', roles: ['editor'] },
  bob: { id: 2, plan: 'pro', roles: ['admin'] },
  carol: { id: 3, roles: [], age: 'thirty' },
}

function userFor({ headers }: FastifyRequest) {
  const name = headers['x-user']
  const user = typeof name === 'string' ? USERS[name] : undefined
  return user === undefined ? null : { id: 0, ...user }
}

const by = (name: string, headers = {}) => ({ headers: { 'x-user': name, ...headers } })

interface GivenRule {
  readonly name?: string
  readonly pathPattern?: string
  readonly condition?: string
  readonly rate?: string
  readonly key?: string
  readonly priority?: number
}

async function startWithRules(
  t: TestContext,
  provider: Provider,
  rules: readonly GivenRule[] = [],
  plugin: RateLimitOptions = {},
  options: Partial<AppOptions> = {},
) {
  const database = await openDatabase(t, provider)
  const { rateLimitRule } = database.client
  for (const [place, rule] of rules.entries()) {
    await rateLimitRule.create({ data: { name: `rule-${place}`, pathPattern: '^/', rate: '7/m', ...rule } })
  }
  const app = await startApp(t, {
    database,
    plugin: { useDynamicRules: true, user: userFor, middleware: { defaultRate: '1000/m' }, ...plugin },
    ...options,
  })
  const limitOf = async (path: string, asked = {}) => (await app.request(path, asked)).headers['x-ratelimit-limit']
  return { ...app, database, rules: rateLimitRule, limitOf }
}

forAnyDatabase((provider) => {
  test('tiers by plan: each user has the limit of the plan, strangers the default', async (t) => {
    const { limitOf } = await startWithRules(t, provider, [
      { condition: "user.plan == 'free'", rate: '10/m', key: 'user' },
      { condition: "user.plan == 'pro'", rate: '100/m', key: 'user' },
    ])

    assert.equal(await limitOf('/x', by('alice')), '10')
    assert.equal(await limitOf('/x', by('bob')), '100')
    assert.equal(await limitOf('/x', by('carol')), '1000')
    assert.equal(await limitOf('/x'), '1000')
  })

  test('rules are tried by priority, and one whose condition does not hold gives way to the next', async (t) => {
    const { limitOf, rules } = await startWithRules(t, provider, [
      { condition: "request.method == 'POST'", rate: '1/m', priority: 30 },
      { condition: "request.headers['x-plan'] == 'gold'", rate: '2/m', priority: 20 },
      { rate: '3/m', priority: 10 },
      { condition: 'true', rate: '4/m', priority: 5 },
    ])

    assert.equal(await limitOf('/x', { method: 'POST' }), '1')
    assert.equal(await limitOf('/x', { headers: { 'x-plan': 'gold' } }), '2')
    assert.equal(await limitOf('/x'), '3')
    await rules.update({ where: { name: 'rule-2' }, data: { condition: 'false' } })
    assert.equal(await limitOf('/x'), '4')
    await rules.update({ where: { name: 'rule-0' }, data: { condition: '' } })
    assert.equal(await limitOf('/x'), '1')
  })

  test('a wrong condition is refused when it is saved, with the place and the remedy', async (t) => {
    const { rules } = await startWithRules(t, provider)
    const data = { name: 'wrong', pathPattern: '^/', rate: '1/m' }

    await assert.rejects(rules.create({ data: { ...data, condition: "user.plan = 'free'" } }), (error) => {
      assert.ok(error instanceof RuleValidationError)
      assert.match(error.errors.condition ?? '', /^at column 11 \(= 'free'\): .*write == to compare$/)
      return true
    })
    await assert.rejects(rules.create({ data: { ...data, condition: `true //${'x'.repeat(1_000)}` } }), /at most 1000/)
    await assert.rejects(rules.create({ data: { ...data, condition: 'request.path' } }), /true or false/)
    assert.equal(await rules.count(), 0)
    await rules.create({ data: { ...data, condition: `true //${'é'.repeat(993)}` } })
  })

  test('rows that raw SQL made wrong are left out and logged once; the others hold', async (t) => {
    const { app, database, limitOf, log } = await startWithRules(t, provider, [
      { name: 'broken', condition: 'true', rate: '1/m', priority: 9 },
      { name: 'good', condition: 'true', rate: '2/m' },
    ])
    const table = database.database.dialect.table('rate_limit_rule')
    await database.database.execute(`UPDATE ${table} SET condition = 'user.(' WHERE name = 'broken'`)
    await app.smartRateLimit.rules.reload()
    await app.smartRateLimit.rules.reload()

    assert.equal(await limitOf('/x'), '2')
    const complaints = log.filter(({ msg }) => msg.includes('skipped'))
    assert.equal(complaints.length, 1)
    assert.match(JSON.stringify(complaints[0]), /broken.*at column 6/)
  })

  test('export, import and history carry the condition, and revert restores it', async (t) => {
    const { app, rules } = await startWithRules(t, provider, [{ name: 'api', condition: "user.plan == 'free'" }])
    const { rules: manager } = app.smartRateLimit
    const exported = await manager.export()
    assert.equal(exported.rules?.[0]?.condition, "user.plan == 'free'")

    await rules.update({ where: { name: 'api' }, data: { condition: "user.plan == 'trial'" } })
    const [change] = await manager.history('api')
    assert.deepEqual(
      [change?.before?.condition, change?.after?.condition],
      ["user.plan == 'free'", "user.plan == 'trial'"],
    )
    await manager.revert(change?.id ?? 0)
    assert.equal((await manager.active())[0]?.condition?.text, "user.plan == 'free'")

    await rules.update({ where: { name: 'api' }, data: { condition: '' } })
    const { rules: difference } = await manager.import(exported)
    assert.equal(difference.updated.length, 1)
    assert.equal((await rules.findMany())[0]?.condition, "user.plan == 'free'")
    const wrong = { ...exported, rules: [{ ...exported.rules?.[0], condition: '(' }] }
    await assert.rejects(manager.import(wrong), /condition/)
  })
})

test('the user may come late: an async answer is awaited where it always is', async (t) => {
  const user = async (request: FastifyRequest) => {
    await new Promise((resolve) => setImmediate(resolve))
    return userFor(request)
  }
  const { limitOf } = await startWithRules(t, 'sqlite', [{ condition: "'admin' in user.roles", rate: '5/m' }], { user })

  assert.equal(await limitOf('/x', by('bob')), '5')
  assert.equal(await limitOf('/x', by('alice')), '1000')
  assert.equal(await limitOf('/x'), '1000')
})

test('a condition sees the request as the router and the proxy do', async (t) => {
  const routes: AppOptions['routes'] = (app) => {
    app.get('/items/:id', async () => 'ok')
    okRoutes(app)
  }
  const { limitOf, rules } = await startWithRules(t, 'sqlite', [{ condition: 'true' }], {}, { routes })
  const holds = async (condition: string, path: string, asked = {}) => {
    await rules.updateMany({ data: { condition } })
    return (await limitOf(path, asked)) === '7'
  }

  assert.ok(await holds("request.route == '/items/:id' && request.path == '/items/é'", '/items/%C3%A9?x=1'))
  assert.ok(await holds("request.route == '404'", '/nothing', { method: 'DELETE' }))
  assert.ok(
    await holds("inNetwork(client.ip, '203.0.113.0/24') && client.ip == '203.0.113.7'", '/x', { from: '203.0.113.7' }),
  )
  assert.ok(await holds("inNetwork(client.ip, '2001:db8::/32')", '/x', { from: '2001:db8:1:2:3::4' }))
  assert.ok(await holds("request.host == 'api.example.com'", '/x', { headers: { host: 'API.example.com:8080' } }))
  for (const host of ['api.example.com.', 'API.example.com.:443']) {
    assert.ok(await holds("request.host == 'api.example.com'", '/x', { headers: { host } }), host)
  }
  assert.ok(await holds("request.host == '[::1]'", '/x', { headers: { host: '[0:0:0:0:0:0:0:1]:80' } }))
  assert.ok(await holds("request.query['a'] == '1' && request.query.b == 'é'", '/x?a=1&a=2&b=%C3%A9'))
  assert.ok(await holds("request.headers['x-a'] == '1'", '/x', { headers: { 'X-A': ['1', '2'] } }))
  assert.ok(
    await holds("request.headers['accept'] == 'text/html, */*'", '/x', { headers: { Accept: 'text/html, */*' } }),
  )
  assert.ok(
    await holds("request.headers.exists(n, n == 'x-a') && size(request.query) == 0", '/x', { headers: { 'X-A': '1' } }),
  )
  assert.ok(await holds("request.method == 'HEAD'", '/x', { method: 'HEAD' }))
})

test('nobody escapes a rule by leaving a header or a parameter out, also under names of every object', async (t) => {
  const condition =
    "!(request.headers['x-plan'] == 'gold') && request.headers['constructor'] == '' && request.query['__proto__'] == ''"
  const { limitOf, log } = await startWithRules(t, 'sqlite', [{ condition }])

  assert.equal(await limitOf('/x'), '7')
  assert.equal(await limitOf('/x', { headers: { 'x-plan': 'gold' } }), '1000')
  assert.equal(await limitOf('/x?__proto__=x'), '1000')
  assert.deepEqual(log, [])
})

test('a condition that reads a field that the user lacks does not match, without a line in the log', async (t) => {
  const condition = "user.plan != 'gold' || user.constructor != 1"
  const { limitOf, log } = await startWithRules(t, 'sqlite', [{ condition }])

  assert.equal(await limitOf('/x'), '1000')
  assert.equal(await limitOf('/x', by('carol')), '1000')
  assert.equal(await limitOf('/x', by('alice')), '7')
  assert.deepEqual(log, [])
})

test('a condition that fails for some requests does not match these, is logged once per rule and counted', async (t) => {
  const registry = new Registry()
  const { limitOf, log, rules } = await startWithRules(
    t,
    'sqlite',
    [
      { name: 'adults', condition: 'user.age >= 18', priority: 1 },
      { name: 'all', rate: '50/m', condition: 'user.age < 5 || true' },
    ],
    { metrics: { prometheus: registry } },
  )
  for (let round = 0; round < 3; round++) assert.equal(await limitOf('/x', by('carol')), '50')

  assert.deepEqual(
    log.map(({ level, msg }) => [level, msg]),
    [[WARN, 'Rate limit rule did not match: its condition could not be decided for a request']],
  )
  assert.match(JSON.stringify(log[0]), /"rule":"adults".*at column 1 \(user\.age >= 18\)/)
  assert.equal((await figuresOf(registry)).get('ratelimit_condition_failures_total'), 3)
  await rules.update({ where: { name: 'adults' }, data: { condition: 'user.age >= 21' } })
  await limitOf('/x', by('carol'))
  assert.equal(log.length, 2)
})

test("a getter of the host's user that throws fails the condition, and never the request", async (t) => {
  const user = () => ({
    id: 1,
    get plan(): string {
      throw new Error('no connection')
    },
  })
  const { request, limitOf, log } = await startWithRules(t, 'sqlite', [{ condition: "user.plan == 'free'" }], { user })

  assert.equal((await request('/x')).status, 200)
  assert.equal(await limitOf('/x'), '1000')
  assert.equal(log.length, 1)
  assert.match(JSON.stringify(log[0]), /no connection/)
})

test('a condition on the user is warned about once where no request has one', async (t) => {
  const { limitOf, log } = await startWithRules(
    t,
    'sqlite',
    [{ condition: "user.plan == 'free'" }, { condition: 'user == null' }],
    { user: undefined },
  )
  assert.equal(await limitOf('/x'), '7')
  assert.equal(await limitOf('/y'), '7')

  assert.equal(log.length, 1)
  assert.match(log[0]?.msg ?? '', /^Conditions of rate limit rules on user see no user: .*Give the option "user"/)
})

/** Of the usual size, on all that clients may lengthen. */
const LARGE = `matches('^/(?:v[0-9]+/)?(?:admin|internal|manage|operations|backoffice|accounts)/(?:[^/]+/)*(?:users|keys|roles)(?:/|$)')`

for (const [lengthened, condition, path, headers] of [
  ['the path', `request.path.${LARGE}`, `/admin/users/${'x/'.repeat(6_000)}`, {}],
  ['a header', `request.headers['x-a'].${LARGE}`, '/', { 'x-a': `/admin/users/${'x/'.repeat(6_000)}` }],
  ['a parameter that another rule reads', "request.path == '/'", `/?q=${'x/'.repeat(6_000)}`, {}],
  ['the number of headers', "request.path == '/'", '/', Object.fromEntries(numbered('x-', 700))],
  ['the number of parameters', "request.path == '/'", `/?${new URLSearchParams(numbered('p', 1_500))}`, {}],
] as const) {
  test(`a rule does not go away where a client lengthens ${lengthened}: the request is refused with 414`, async (t) => {
    const { request, log, app } = await startWithRules(
      t,
      'sqlite',
      [
        { name: 'early', pathPattern: '^/early$', rate: '3/m', priority: 3 },
        { name: 'injected', condition: `request.query['q'].${LARGE}`, rate: '100/m', priority: 2 },
        ...Array.from({ length: 12 }, (_, place) => ({
          name: `words-${place}`,
          condition: `request.query.exists(p, request.query[p].${LARGE}) || request.headers.exists(h, h.${LARGE})`,
          rate: '100/m',
          priority: 1,
        })),
        { name: 'asked', condition, rate: '2/h' },
      ],
      { logEvents: true },
    )
    const statuses = async (asked: string, sent: Readonly<Record<string, string>> = {}) => {
      const found = []
      for (let count = 0; count < 4; count++) found.push((await request(asked, { headers: sent })).status)
      return found
    }

    assert.deepEqual(await statuses(path, headers), [414, 414, 414, 414])

    const refused = log.filter(({ msg }) => msg.startsWith('Rate limits refuse a request with 414'))
    assert.equal(refused.length, 1, 'it is logged once')
    assert.deepEqual(await statuses('/early', path === '/' ? headers : {}), [200, 200, 200, 429], 'rules before decide')
    await app.smartRateLimit.events.flush()
    const [event] = await app.smartRateLimit.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual([event?.allowed, event?.outcome, event?.ruleName], [false, 'denied', ''])
  })
}

function numbered(prefix: string, count: number): [string, string][] {
  return Array.from({ length: count }, (_, place) => [`${prefix}${place}`, 'a'])
}

test(
  'an ordinary request is never refused for the number of rules, and a long one before the last of them is asked',
  long(),
  async (t) => {
    const { limitOf, request, rules } = await startWithRules(t, 'sqlite')
    await rules.createMany({
      data: Array.from({ length: 1_000 }, (_, place) => ({
        name: `agents-${place}`,
        pathPattern: '^/',
        condition: `request.headers['user-agent'].matches('(?i)agent-${place}x|bot|spider|crawler|scrapy|headless')`,
        rate: `${place + 1}/m`,
      })),
    })
    const from = (agent: string) => ({ headers: { 'user-agent': agent } })
    assert.equal(await limitOf('/x', from(`Mozilla/5.0 ${'x'.repeat(240)}`)), '1000')
    assert.equal(await limitOf('/x', from('Agent-999x')), '1000')
    assert.equal((await request('/x', from('spidecrawlescrapheadle'.repeat(40)))).status, 414)
  },
)

test('staff see why a request that is too long is refused', async (t) => {
  const { app } = await startWithRules(t, 'sqlite', [
    { condition: `request.headers['x-a'].${LARGE}` },
    { condition: "request.headers['x-a'].contains('b')", priority: -1 },
  ])
  const { decided_by, limits } = await app.smartRateLimit.explain({ path: '/', headers: { 'x-a': 'x/'.repeat(7_000) } })
  assert.equal(decided_by, 'path-length')
  assert.deepEqual(
    limits.filter(({ policy }) => policy !== 'override').map(({ policy, applies, why }) => [policy, applies, why]),
    [
      ['rule-0', false, 'The condition could not be decided: The conditions take too much work for one request.'],
      ['rule-1', false, 'The condition could not be decided: The conditions take too much work for one request.'],
      [
        'path-length',
        true,
        'The path, the query or a header is too long for the patterns and conditions of rules: the request is refused.',
      ],
      ['default', false, '"path-length" decides before it.'],
    ],
  )
})

test('a header is the first of its name, however many others a request has', async (t) => {
  const { limitOf } = await startWithRules(t, 'sqlite', [
    { condition: "request.headers['x-a'] == 'b' && request.headers['x-b'] == 'c, d'" },
  ])
  assert.equal(await limitOf('/', { headers: { 'x-a': ['b', 'c'], 'x-b': 'c, d' } }), '7')
})

test('a thousand rules with conditions for one path are all tried, and the first that holds decides', async (t) => {
  const { app, limitOf, rules } = await startWithRules(t, 'sqlite')
  await rules.createMany({
    data: Array.from({ length: 1_000 }, (_, place) => ({
      name: `tenant-${String(place).padStart(4, '0')}`,
      pathPattern: '^/',
      condition: `request.headers['x-tenant'] == '${place}'`,
      rate: `${place + 1}/m`,
    })),
  })
  assert.equal((await app.smartRateLimit.rules.active()).length, 1_000)

  for (const tenant of ['0', '500', '999']) {
    assert.equal(await limitOf('/x', { headers: { 'x-tenant': tenant } }), String(Number(tenant) + 1))
  }
  assert.equal(await limitOf('/x', { headers: { 'x-tenant': 'none' } }), '1000')
})

test('a long path is refused where the patterns of rules with conditions cannot be searched', async (t) => {
  const { request } = await startWithRules(t, 'sqlite', [
    { pathPattern: '(a|b)*a(a|b){50}c', condition: "request.headers['x-a'] == '1'" },
    { pathPattern: '(a|b)*b(a|b){50}c', rate: '1/m' },
  ])
  assert.equal((await request(`/${'ab'.repeat(6_000)}`)).status, 414)
})

test('code asks with the conditions of the request', async (t) => {
  const routes: AppOptions['routes'] = (app) => {
    app.get('/ask', { config: { smartRateLimit: false } }, async (request) => app.smartRateLimit.peek(request))
  }
  const { request } = await startWithRules(
    t,
    'sqlite',
    [{ condition: "user.plan == 'pro'", rate: '9/m' }],
    {},
    { routes },
  )
  assert.equal(JSON.parse((await request('/ask', by('bob'))).text).limit, 9)
  assert.equal(JSON.parse((await request('/ask', by('alice'))).text).limit, 1_000)
})
