/** A wrong setting is refused at start, with its name, its value, and what is allowed. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import Fastify from 'fastify'
import { apiPlugin, checkPlugin } from '../../src/api.js'
import { dashboardPlugin } from '../../src/dashboard.js'
import { createRateLimitClient, rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'

/** A message must name the setting, quote the value, and say what is allowed. */
type Wrong = readonly [setting: string, value: unknown, allowed: RegExp]

const WRONG_SETTINGS: readonly Wrong[] = [
  ['enabled', 'maybe', /true or false/],
  ['enabled', 1, /true or false/],
  ['logEvents', 'all', /blocked/],
  ['useDynamicRules', 'yes', /true or false/],
  ['ruleCacheTimeout', -1, /0 to 86400/],
  ['ruleCacheTimeout', '60', /0 to 86400/],
  ['ruleCacheTimeout', Number.NaN, /0 to 86400/],
  ['middleware', [], /object/],
  ['middleware', 'fast', /object/],
  ['middleware', Promise.resolve({ defaultRate: '5/m' }), /object/],
  ['onStoreError', 'ignore', /local.*allow.*deny/],
  ['alertThreshold', 0, /1 or more/],
  ['alertThreshold', 2.5, /1 or more/],
  ['database', 'mysql://host/name', /file:.*postgresql:/],
  ['database', 'file:', /file:.*postgresql:/],
  ['database', '', /URL/],
  ['database', 7, /URL/],
  ['database', () => 'file:./a.db', /URL/],
  ['database', 'file:/no/such/folder/of/anybody.db', /folder/],
  ['redis', 'localhost:6379', /redis:\/\/.*cluster/],
  ['redis', 'http://localhost', /redis:\/\//],
  ['redis', 'redis://', /redis:\/\//],
  ['redis', 'redis://host:port', /redis:\/\//],
  ['redis', '', /redis:\/\/.*ioredis/],
  ['redis', 6379, /redis:\/\/.*ioredis/],
  ['redis', {}, /redis:\/\/.*ioredis/],
  ['schema', 'a-b', /letters/],
  ['namespace', 'a b', /letters/],
  ['namespace', '', /letters/],
  ['user', 'me', /function/],
  ['hook', 'onSend', /onRequest.*preHandler/],
  ['headers', 'some', /legacy.*none/],
  ['ipv6Subnet', 0, /1 to 128/],
  ['ipv6Subnet', 129, /1 to 128/],
  ['storeTimeoutMs', 0, /1 to 60000/],
  ['eventBuffer', 0, /1 to/],
  ['eventSpool', '', /folder/],
  ['eventSpool', true, /folder/],
  ['usage', 'tokens', /false, or a list of units such as tokens/],
  ['usage', true, /false, or a list of units/],
  ['usage', ['Tokens'], /at most 30 of a-z/],
  ['usage', ['x'.repeat(31)], /at most 30/],
  ['onNotice', 'mail', /function of a client, a limit and a share/],
  ['keepUsageFor', 400, /400d/],
  ['keepUsageFor', '0d', /1d to 9999d/],
  ['keepUsageFor', '2h', /1d to 9999d/],
  ['clock', 5, /now/],
  ['metrics', true, /prometheus/],
  ['metrics', {}, /prometheus.*openTelemetry/],
]

const WRONG_METRICS: readonly Wrong[] = [
  ['prometheus', 'yes', /Registry/],
  ['prometheus', {}, /Registry of prom-client/],
  ['openTelemetry', 1, /MeterProvider/],
  ['openTelemetry', { name: 'tracer' }, /MeterProvider or a Meter/],
  ['statsd', true, /prometheus, openTelemetry/],
]

const WRONG_MIDDLEWARE: readonly Wrong[] = [
  ['backend', 'redis', /"redis".*RATELIMIT_REDIS_URL.*redis:\/\//],
  ['noticeAt', '100,80', /one to three whole numbers of percent, 1 to 100, that rise/],
  ['noticeAt', 80, /percentages such as 80,100/],
  ['backend', 'disk', /database.*memory/],
  ['backend', {}, /database.*memory/],
  ...['1000 per hour', '-5/m', '-5/30s', '10/0s', '10', '10/x', 'abc/m', '10/m/s', '', 'invalid', '2147483648/m'].map(
    (rate): Wrong => ['defaultRate', rate, /<count>\/<period>/],
  ),
  ['defaultRate', '1/367d', /366d/],
  ['defaultRate', 100, /100\/m/],
  ['rateLimits', { '/api/': 'bogus' }, /\/api\/.*<count>\/<period>/],
  ['rateLimits', { api: '5/m' }, /begin it with/],
  ['rateLimits', { '/api/': 5 }, /rates/],
  ['rateLimits', JSON.parse('{"__proto__": "5/m"}'), /begin it with/],
  ['algorithm', 'dice', /fixed_window, sliding_window, token_bucket, leaky_bucket/],
  ['key', 'cookie', /ip, user or header/],
  ['key', 'header:', /ip, user or header/],
  ['key', 'header:a b', /ip, user or header/],
  ['key', 'header:__Proto__', /another header/],
  ['block', 'no', /true or false/],
  ...['1', '99ms', '3s', '2001ms', '1m', 1000, '0.5s', ''].map((lease): Wrong => ['lease', lease, /1s, 100ms to 2s/]),
  ['skipPaths', ['health'], /begin it with/],
  ['skipPaths', '/health', /list/],
  ...['10.0.0.0/33', '10.0.0.0/-1', '10.0.0.0/8/8', '10.0.0', 'localhost', '', '2001:db8::/129', '10.0.0.0/x'].flatMap(
    (entry): Wrong[] => [
      ['denyList', [entry], /10\.0\.0\.0\/8/],
      ['allowList', ['10.0.0.1', entry], /10\.0\.0\.0\/8/],
    ],
  ),
]

for (const [setting, value, allowed] of WRONG_SETTINGS) {
  test(`${setting}: ${shown(value)} is refused at start`, async (t) => {
    assertExplained(await complaintOf(t, { [setting]: value }), setting, value, allowed)
  })
}

for (const answer of [Number.NaN, Number.POSITIVE_INFINITY, -1, 1e15, '0', null, new Date(0)]) {
  test(`a clock that answers ${String(answer)} is refused at start`, async (t) => {
    assert.match(
      await complaintOf(t, { clock: { now: () => answer } }),
      /^Setting "clock" answers .*as Date\.now does$/,
    )
  })
}

test('a clock that throws is refused at start', async (t) => {
  const now = () => {
    throw new Error('no battery')
  }
  assert.match(await complaintOf(t, { clock: { now } }), /^Setting "clock" is .*now.*: no battery$/)
})

test('settings that are not awaited are refused at start', async (t) => {
  const app = Fastify()
  t.after(() => app.close())
  Reflect.apply(app.register, app, [rateLimitPlugin, Promise.resolve({ middleware: { defaultRate: '5/m' } })])
  await assert.rejects(async () => app.ready(), { message: /^The settings are a promise: await it/ })
})

for (const [setting, value, allowed] of WRONG_METRICS) {
  test(`metrics.${setting}: ${shown(value)} is refused at start`, async (t) => {
    assertExplained(await complaintOf(t, { metrics: { [setting]: value } }), `metrics.${setting}`, value, allowed)
  })
}

for (const [setting, value, allowed] of WRONG_MIDDLEWARE) {
  test(`middleware.${setting}: ${shown(value)} is refused at start`, async (t) => {
    const complaint = await complaintOf(t, { middleware: { [setting]: value } })
    assertExplained(complaint, `middleware.${setting}`, value, allowed)
  })
}

test('an option of @fastify/rate-limit is refused with its counterpart', async (t) => {
  for (const [options, remedy] of [
    [{ max: 5 }, `"max" does not exist: give middleware: { defaultRate: '100/m' }`],
    [{ skipOnError: true }, `"skipOnError" does not exist: give onStoreError: 'allow'`],
    [{ middleware: { keyGenerator: () => '' } }, `"middleware.keyGenerator" does not exist: give middleware: { key: `],
  ] as const) {
    const complaint = await complaintOf(t, options)
    assert.ok(complaint.includes(remedy), complaint)
  }
})

test('a setting that does not exist is refused with the names of those that do', async (t) => {
  assert.match(await complaintOf(t, { maximum: 5 }), /"maximum" does not exist.*logEvents/)
  assert.match(
    await complaintOf(t, { middleware: { maximum: 5 } }),
    /"middleware\.maximum" does not exist.*defaultRate/,
  )
  assert.match(await complaintOf(t, { constructor: 5 }), /"constructor" does not exist/)
})

test('a setting that does not exist is answered with the nearest name before the list', async (t) => {
  for (const [options, nearest] of [
    [{ databse: 'file:./x.db' }, 'database'],
    [{ Database: 'file:./x.db' }, 'database'],
    [{ logEvent: true }, 'logEvents'],
    [{ middleware: { defaultRates: '5/m' } }, 'defaultRate'],
    [{ middleware: { kye: 'ip' } }, 'key'],
    [{ schedule: { alert: '@daily' } }, 'alerts'],
    [{ geo: { counrty: './x.mmdb' } }, 'country'],
  ] as const) {
    const complaint = await complaintOf(t, options)
    const [before = '', list] = complaint.split(' Give one of ')
    assert.ok(before.endsWith(` does not exist. Did you mean \`${nearest}\`?`), complaint)
    assert.ok(list?.split(', ').includes(nearest), complaint)
  }
  assert.match(await complaintOf(t, { colour: 5 }), /^Setting "colour" does not exist: give one of /)
})

test('what register, an autoloader and fastify-cli add to the options is left alone, by every plugin', async (t) => {
  const added = {
    prefix: '/limits',
    logLevel: 'warn',
    logSerializers: {},
    skipOverride: true,
    dir: './plugins',
    options: {},
    encapsulate: true,
  } as const
  const { request } = await startApp(t, {
    database: await openDatabase(t, 'sqlite'),
    plugin: { ...added, middleware: { defaultRate: '3/d' } },
    async routes(app) {
      app.get('/', async () => 'ok')
      await app.register(dashboardPlugin, { ...added, prefix: '/staff', isStaff: () => true })
      await app.register(apiPlugin, { ...added, prefix: '/api', tokens: false, authorize: () => 'viewer' })
      await app.register(checkPlugin, { ...added, prefix: '/check', tokens: false, authorize: () => 'checker' })
    },
  })
  const { status, headers } = await request('/')
  assert.deepEqual([status, headers['x-ratelimit-limit']], [200, '3'])
  for (const path of ['/staff/dashboard/', '/api/openapi.json', '/check/openapi.json']) {
    assert.equal((await request(path)).status, 200, path)
  }
})

test('hashHeaderKeys without a secret is refused, and a short secret too, without showing it', async (t) => {
  assert.match(await complaintOf(t, { hashHeaderKeys: true }), /hashSecret.*RATELIMIT_HASH_SECRET/)
  const complaint = await complaintOf(t, { hashHeaderKeys: true, hashSecret: 'hunter2' })
  assert.match(complaint, /hashSecret.*16/)
  assert.doesNotMatch(complaint, /hunter2/)
})

test('a spool for events that are not logged is refused', async (t) => {
  assert.match(await complaintOf(t, { eventSpool: './spool' }), /eventSpool.*logEvents: true/)
})

test('the password of a database or a Redis URL is in no message', async (t) => {
  for (const redis of [
    'http://:hunter2@host',
    'redis://me:hunter2@a:1,redis://me:hunter2@b:port',
    'redis://:%hunter2@a',
  ]) {
    assert.doesNotMatch(await complaintOf(t, { redis }), /hunter2/)
  }
  const url = 'postgresql://me:hunter2@host/name'
  for (const database of [
    'mysql://me:hunter2@host/name',
    `${url}?${'x'.repeat(2_000)}`,
    [url],
    `password=hunter2 ${'x'.repeat(2_000)}`,
  ]) {
    assert.doesNotMatch(await complaintOf(t, { database }), /hunter2/)
  }
  const backend = 'rediss://host/?password=hunter2'
  const complaint = await complaintOf(t, { middleware: { backend: backend as 'redis' } })
  assert.match(complaint, /backend" is "rediss:\/\/…, which is not a valid backend/)
})

test('a folder of events is a path, and no URL', async (t) => {
  const complaint = await complaintOf(t, { logEvents: true, eventSpool: 'file:///var/spool/events' })
  assert.match(complaint, /^Setting "eventSpool" is a URL: give a folder/)
})

test('a client that createRateLimitClient did not make is refused', async (t) => {
  assert.match(await complaintOf(t, { database: { rateLimitRule: {} } }), /"database".*createRateLimitClient/)
  assert.throws(() => createRateLimitClient({ database: 'redis://host' }), /"database".*redis/)
})

const ENVIRONMENT: readonly (readonly [variable: string, value: string, complaint: RegExp])[] = [
  ['RATELIMIT_ENABLE', 'maybe', /RATELIMIT_ENABLE.*maybe.*true or false/],
  ['RATELIMIT_LOG_EVENTS', 'all', /RATELIMIT_LOG_EVENTS.*all.*blocked/],
  ['RATELIMIT_USE_DYNAMIC_RULES', '2', /RATELIMIT_USE_DYNAMIC_RULES.*2.*true or false/],
  ['RATELIMIT_RULE_CACHE_TIMEOUT', '1m', /RATELIMIT_RULE_CACHE_TIMEOUT.*1m.*86400/],
  ['RATELIMIT_ON_STORE_ERROR', 'panic', /RATELIMIT_ON_STORE_ERROR.*panic.*local/],
  ['RATELIMIT_ALERT_THRESHOLD', '0', /RATELIMIT_ALERT_THRESHOLD.*0.*1 or more/],
  ['RATELIMIT_MIDDLEWARE', '{"DEFAULT_RATE":', /RATELIMIT_MIDDLEWARE.*JSON/],
  ['RATELIMIT_MIDDLEWARE', '["100/m"]', /RATELIMIT_MIDDLEWARE.*JSON/],
  ['RATELIMIT_MIDDLEWARE', '{"RATE":"5/m"}', /RATELIMIT_MIDDLEWARE.*RATE.*DEFAULT_RATE/],
  ['RATELIMIT_MIDDLEWARE', '{"DEFAULT_RATE":"1000 per hour"}', /1000 per hour.*<count>\/<period>/],
  ['RATELIMIT_DATABASE_URL', 'oracle://host', /oracle.*file:/],
  ['RATELIMIT_REDIS_URL', '10.0.0.1', /RATELIMIT_REDIS_URL.*redis:/],
  ['RATELIMIT_MIDDLEWARE', '{"BACKEND":"redis"}', /RATELIMIT_REDIS_URL/],
]
for (const [variable, value, complaint] of ENVIRONMENT) {
  test(`the environment variable ${variable}=${value} is refused at start`, async (t) => {
    setEnvironment(t, { [variable]: value })
    assert.match(await complaintOf(t, {}), complaint)
  })
}

test('environment variables count where an option is absent, and options override them one by one', async (t) => {
  setEnvironment(t, {
    RATELIMIT_MIDDLEWARE:
      '{"BACKEND":"memory","DEFAULT_RATE":"7/m","RATE_LIMITS":{"/api/":"3/m"},"SKIP_PATHS":["/free"]}',
  })
  const { request } = await startApp(t, { database: null })
  const other = await startApp(t, { database: null, plugin: { middleware: { defaultRate: '9/m' } } })
  const limits = async ({ request }: Awaited<ReturnType<typeof startApp>>) =>
    Promise.all(['/', '/api/x', '/free'].map(async (path) => (await request(path)).headers['x-ratelimit-limit']))

  assert.equal((await request('/')).headers['x-ratelimit-limit'], '7')
  assert.deepEqual(await limits(other), ['9', '3', undefined])
})

test('RATELIMIT_ENABLE=false turns the plugin off, an empty variable does not, and enabled: true overrides both', async (t) => {
  setEnvironment(t, { RATELIMIT_ENABLE: 'False' })
  const off = await startApp(t, { database: null })
  const on = await startApp(t, { database: null, plugin: { enabled: true } })
  setEnvironment(t, { RATELIMIT_ENABLE: '' })
  const empty = await startApp(t, { database: null })

  assert.equal((await off.request('/')).headers['x-ratelimit-limit'], undefined)
  assert.equal((await on.request('/')).headers['x-ratelimit-limit'], '100')
  assert.equal((await empty.request('/')).headers['x-ratelimit-limit'], '100')
})

test('RATELIMIT_DATABASE_URL, _LOG_EVENTS, _USE_DYNAMIC_RULES and _RULE_CACHE_TIMEOUT are used where no option is given', async (t) => {
  const database = await openDatabase(t, 'sqlite')
  setEnvironment(t, {
    RATELIMIT_DATABASE_URL: database.url,
    RATELIMIT_LOG_EVENTS: 'blocked',
    RATELIMIT_USE_DYNAMIC_RULES: '1',
    RATELIMIT_RULE_CACHE_TIMEOUT: '5',
  })
  const { app, statuses, clock } = await startApp(t, {
    database: null,
    plugin: { middleware: { backend: 'database' } },
  })
  await statuses(1, '/')
  await database.client.rateLimitRule.create({ data: { name: 'all', pathPattern: '^/', rate: '1/h' } })
  clock.advance(5_000)

  assert.deepEqual(await statuses(2, '/'), [200, 429])
  await app.smartRateLimit.events.flush()
  assert.equal(await database.client.rateLimitEvent.count(), 1)
})

/** Why an app with these options does not start. */
async function complaintOf(t: TestContext, options: object): Promise<string> {
  const app = Fastify()
  atEnd(t, () => app.close())
  try {
    await app.register(rateLimitPlugin, options)
  } catch (error) {
    assert.ok(error instanceof Error && 'code' in error)
    assert.equal(error.code, 'FST_RATE_LIMIT_INVALID_SETTING')
    return error.message
  }
  return assert.fail('It started')
}

/** The settings of which no message quotes what it does not understand. */
const MAY_HAVE_PASSWORDS: ReadonlySet<string> = new Set(['database', 'redis'])

function assertExplained(complaint: string, setting: string, value: unknown, allowed: RegExp): void {
  assert.ok(complaint.includes(`"${setting}`), complaint)
  const quotable = typeof value === 'object' ? Object.entries(Object(value)).at(-1)?.flat(9) : [value]
  const texts = (quotable ?? []).filter((part) => typeof part === 'string')
  const isQuoted = texts.length === 0 || texts.some((text) => complaint.includes(text))
  assert.ok(isQuoted || MAY_HAVE_PASSWORDS.has(setting), complaint)
  assert.match(complaint, allowed)
}

function setEnvironment(t: TestContext, variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) {
    const before = process.env[name]
    process.env[name] = value
    atEnd(t, () => {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    })
  }
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? String(value)
}
