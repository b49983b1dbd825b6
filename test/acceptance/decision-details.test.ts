/** A decision tells what decided and about whom, in the words of the event log: to hooks, handlers and error handlers. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { CheckedRequest, NOTHING_IN_FORCE } from '../../src/http/checked-request.js'
import { DECISION } from '../../src/http/on-request.js'
import type { RateLimitOptions, RequestDecision, Store } from '../../src/index.js'
import { openDatabase, startApp } from '../support/build-app.js'
import type { TestDatabase } from '../support/databases.js'
import type { RequestOptions } from '../support/http-client.js'

const FROM = '203.0.113.7'
const SECRET = 'a secret for tests that is long enough'

const RULES = [
  { name: 'api', pathPattern: '^/api', rate: '1/h' },
  { name: 'team', pathPattern: '^/team', rate: '1/h', key: 'user' },
  { name: 'keyed', pathPattern: '^/keyed', rate: '1/h', key: 'header:x-api-key' },
  { name: 'strict', pathPattern: '^/strict', rate: '1/h', banAfter: 1, banFor: '1h' },
  { name: 'large', pathPattern: '(a|b)*a(a|b){94}$', rate: '7/m' },
]

const OVERRIDES = [
  { client: 'ip:198.51.100.1', effect: 'deny' },
  { client: 'ip:198.51.100.2', effect: '1/h' },
]

type Details = Pick<RequestDecision, 'policy' | 'rule' | 'client' | 'key'>

/** Starts an app that answers every request, refused or not, with the details of its decision. */
async function start(t: Parameters<typeof startApp>[0], plugin: RateLimitOptions = {}) {
  const database = await openDatabase(t, 'sqlite')
  const refused: Details[] = []
  const { app, request } = await startApp(t, {
    database,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      user: ({ headers }) => (headers['x-user'] ? { id: String(headers['x-user']) } : null),
      onRefused: (_request, decision) => void refused.push(detailsOf(decision)),
      ...plugin,
      middleware: {
        defaultRate: '9/h',
        rateLimits: { '/auth/': '1/h' },
        denyList: ['192.0.2.66'],
        ...plugin.middleware,
      },
    },
    routes: showDetails,
  })
  for (const data of RULES) await database.client.rateLimitRule.create({ data })
  for (const data of OVERRIDES) await database.client.rateLimitOverride.create({ data })
  await app.smartRateLimit.rules.reload()

  async function details(path: string, options: RequestOptions = {}): Promise<[number, Details]> {
    const { status, text } = await request(path, { from: FROM, ...options })
    return [status, JSON.parse(text)]
  }
  return { app, database, details, refused }
}

function showDetails(app: FastifyInstance): void {
  const { limit, decisionOf } = app.smartRateLimit
  app.setErrorHandler<Error & { decision: RequestDecision; statusCode: number }>((error, request, reply) => {
    assert.equal(error.decision, decisionOf(request))
    reply.code(error.statusCode).send(detailsOf(error.decision))
  })
  app.get('/*', async (request) => detailsOf(decisionOf(request)))
  app.get('/own', { onRequest: limit({ rate: '1/h' }) }, async (request) => detailsOf(decisionOf(request)))
  app.get('/named', { onRequest: limit({ rate: '1/h', name: 'reports', key: 'user' }) }, async (request) =>
    detailsOf(decisionOf(request)),
  )
  app.get('/config', { config: { smartRateLimit: { rate: '1/h' } } }, async (request) => detailsOf(decisionOf(request)))
}

function detailsOf(decision: RequestDecision | null): Details {
  assert.ok(decision)
  const { policy, rule, client, key } = decision
  return { policy, rule, client, key }
}

/** Returns the details that the log has of the latest request. */
async function logged(app: FastifyInstance, { client }: TestDatabase): Promise<Details> {
  await app.smartRateLimit.events.flush()
  const event = await client.rateLimitEvent.findFirstOrThrow({ orderBy: { id: 'desc' } })
  return { policy: event.policy, rule: event.ruleName || null, client: event.client, key: event.key }
}

const CASES: readonly [path: string, options: RequestOptions, statuses: readonly number[], details: Details][] = [
  ['/', {}, [200], { policy: 'default', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }],
  ['/auth/x', {}, [200, 429], { policy: '/auth/', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }],
  ['/api', {}, [200, 429], { policy: 'api', rule: 'api', client: `ip:${FROM}`, key: `rule:api:${FROM}` }],
  [
    '/team',
    { headers: { 'x-user': '7' } },
    [200, 429],
    { policy: 'team', rule: 'team', client: 'user:7', key: 'rule:team:user:7' },
  ],
  [
    '/keyed',
    { headers: { 'x-api-key': 'k'.repeat(300) } },
    [200, 429],
    {
      policy: 'keyed',
      rule: 'keyed',
      client: `header:x-api-key:${'k'.repeat(300)}`.slice(0, 255),
      key: `rule:keyed:${'k'.repeat(300)}`.slice(0, 255),
    },
  ],
  ['/own', {}, [200, 429], { policy: 'route', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }],
  [
    '/named',
    { headers: { 'x-user': '7' } },
    [200, 429],
    { policy: 'reports', rule: null, client: 'user:7', key: 'user:7' },
  ],
  ['/config', {}, [200, 429], { policy: 'route', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }],
  [
    '/denied',
    { from: '192.0.2.66' },
    [403],
    { policy: 'deny-list', rule: null, client: 'ip:192.0.2.66', key: 'ip:192.0.2.66' },
  ],
  [
    '/',
    { from: '198.51.100.1' },
    [403],
    { policy: 'override', rule: null, client: 'ip:198.51.100.1', key: 'ip:198.51.100.1' },
  ],
  [
    '/',
    { from: '198.51.100.2' },
    [200, 429],
    { policy: 'override', rule: null, client: 'ip:198.51.100.2', key: 'ip:198.51.100.2' },
  ],
  [`/${'ab'.repeat(5_000)}`, {}, [414], { policy: 'path-length', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }],
]

test('decisionOf(), onRefused and the error tell policy, rule, client and key, as the event does', async (t) => {
  for (const [path, options, statuses, expected] of CASES) {
    const { app, database, details, refused } = await start(t)
    for (const status of statuses) assert.deepEqual(await details(path, options), [status, expected], path.slice(0, 40))
    assert.deepEqual(refused, statuses.at(-1) === 200 ? [] : [expected])
    // Where the limit of a route lets a request through, its event is that of the plugin's own check.
    if (refused.length > 0) assert.deepEqual(await logged(app, database), expected)
  }
})

test('the decision about a banned client names the override, and that under a ceiling names the ceiling', async (t) => {
  const banning = await start(t)
  const { policy, ...client } = (await banning.details('/strict'))[1]
  assert.deepEqual([policy, client], ['strict', { rule: 'strict', client: `ip:${FROM}`, key: `rule:strict:${FROM}` }])
  assert.equal((await banning.details('/strict'))[0], 429)
  assert.deepEqual(await banning.details('/strict'), [
    403,
    { policy: 'override', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` },
  ])
  assert.deepEqual(await logged(banning.app, banning.database), banning.refused.at(-1))

  const under = await start(t, { middleware: { key: 'header:x-api-key', defaultRate: '2/h', ceiling: '3/h' } })
  const headers = { 'x-api-key': 'k1' }
  const ofCeiling = { policy: 'ceiling', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }
  assert.deepEqual(await under.details('/', { headers }), [
    200,
    { policy: 'default', rule: null, client: 'header:x-api-key:k1', key: 'header:k1' },
  ])
  for (const [status, key] of [
    [200, 'k2'],
    [200, 'k3'],
    [429, 'k4'],
  ] as const) {
    assert.deepEqual(await under.details('/', { headers: { 'x-api-key': key } }), [status, ofCeiling])
  }
  assert.deepEqual(await logged(under.app, under.database), under.refused.at(-1))
})

test('a decision that no store could make tells whom it is about too', async (t) => {
  const backend: Store = {
    concurrency: 1,
    check: async () => Promise.reject(new Error('away')),
    reset: async () => undefined,
    close: async () => undefined,
  }
  for (const [onStoreError, status] of [
    ['deny', 503],
    ['allow', 200],
    ['local', 200],
  ] as const) {
    const { details } = await start(t, { onStoreError, middleware: { backend } })
    assert.deepEqual(await details('/api'), [
      status,
      { policy: 'api', rule: 'api', client: `ip:${FROM}`, key: `rule:api:${FROM}` },
    ])
  }
})

for (const addresses of ['truncated', 'pseudonym'] as const) {
  test(`with privacy.addresses "${addresses}" a decision has the client as the log has it`, async (t) => {
    const { app, database, details, refused } = await start(t, { privacy: { addresses }, hashSecret: SECRET })
    for (const [path, from] of [
      ['/', FROM],
      ['/api', FROM],
      ['/', '2001:db8:1:2::7'],
      ['/', '192.0.2.66'],
    ] as const) {
      const [, told] = await details(path, { from })
      assert.deepEqual(told, await logged(app, database))
      assert.doesNotMatch(JSON.stringify(told), /113\.7"|db8:1:2|\.66/)
    }
    assert.equal(refused.length, 1)
  })
}

test('with hashHeaderKeys a decision has the hash of the header', async (t) => {
  const { app, database, details } = await start(t, { hashHeaderKeys: true, hashSecret: SECRET })
  const [, told] = await details('/keyed', { headers: { 'x-api-key': 'sk-0123456789abcdef' } })
  assert.deepEqual(told, await logged(app, database))
  assert.match(told.client, /^header:x-api-key:sk-0~[0-9a-f]{32}$/)
})

test('check() and peek() tell policy, rule, client and key', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const { app, request } = await startApp(t, {
    database,
    plugin: { useDynamicRules: true },
    routes(scope) {
      const { check, peek, limit } = scope.smartRateLimit
      const own = limit({ rate: '5/h', name: 'messages', cost: 2 })
      const config = { smartRateLimit: false } as const
      scope.get('/api', { config }, async (asked) => [await check(asked), await peek(asked)].map(detailsOf))
      scope.get('/own', { config }, async (asked) => [await own.check(asked), await own.peek(asked)].map(detailsOf))
    },
  })
  await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api', rate: '1/h' } })
  await app.smartRateLimit.rules.reload()
  const told = async (path: string) => JSON.parse((await request(path, { from: FROM })).text)
  const byRule = { policy: 'api', rule: 'api', client: `ip:${FROM}`, key: `rule:api:${FROM}` }
  assert.deepEqual(await told('/api'), [byRule, byRule])
  const byLimit = { policy: 'messages', rule: null, client: `ip:${FROM}`, key: `ip:${FROM}` }
  assert.deepEqual(await told('/own'), [byLimit, byLimit])
  assert.deepEqual(await told('/own'), [byLimit, byLimit], 'where the wait is for a cost of its own')
})

test('a request keeps its decision, and not the rules of its moment: it may live for days', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  const kept: unknown[] = []
  const { app, request } = await startApp(t, {
    database,
    plugin: { useDynamicRules: true },
    routes(scope) {
      scope.get('/api', async (asked) => void kept.push(Reflect.get(asked, DECISION)))
    },
  })
  await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api', rate: '1/h' } })
  await app.smartRateLimit.rules.reload()
  await request('/api')
  const [record] = kept
  assert.ok(record instanceof CheckedRequest)
  assert.deepEqual([record.limit.ruleName, record.inForce], ['api', NOTHING_IN_FORCE])
})

test("the app's log has no client of refused requests: a key may be a secret", async (t) => {
  const lines: string[] = []
  const { request } = await startApp(t, {
    database: null,
    fastify: { logger: { level: 'info', stream: { write: (line: string) => void lines.push(line) } } },
    plugin: { middleware: { key: 'header:x-api-key', defaultRate: '0/h' } },
  })
  assert.equal((await request('/', { headers: { 'x-api-key': 'sk-0123456789' } })).status, 429)
  const refusal = lines.find((line) => line.includes('FST_RATE_LIMIT_EXCEEDED'))
  assert.ok(refusal)
  assert.doesNotMatch(lines.join(''), /sk-0123456789/)
})
