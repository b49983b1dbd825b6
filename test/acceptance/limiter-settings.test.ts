/** What `createLimiter` and its limits accept, and what they do where that is wrong or fails. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { resolveLimiter } from '../../src/limiter/core/limiter-settings.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { createLimiter, type RateLimiterOptions } from '../../src/limiter.js'
import { fakeClock } from '../support/clock.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { runProgram } from '../support/optional-peers.js'

const STORE: Store = { concurrency: 1, check: () => [], reset: () => undefined, close: () => undefined }
const SILENT = { error: () => undefined, warn: () => undefined, info: () => undefined }
const REDIS = { RATELIMIT_REDIS_URL: 'redis://127.0.0.1:1' }
const DATABASE = { RATELIMIT_DATABASE_URL: 'file:./counters.db' }

test('counters are where the option says, else where the environment says, else in memory', () => {
  const backendFor = (options: RateLimiterOptions, environment: NodeJS.ProcessEnv) =>
    resolveLimiter(options, environment).backend
  assert.equal(backendFor({}, {}), 'memory')
  assert.equal(backendFor({ redis: 'redis://127.0.0.1:1' }, DATABASE), 'redis')
  assert.equal(backendFor({ database: 'file:./x.db' }, REDIS), 'database')
  assert.equal(backendFor({}, REDIS), 'redis')
  assert.equal(backendFor({}, DATABASE), 'database')
  const store = new MemoryStore()
  assert.equal(backendFor({ store }, { ...REDIS, ...DATABASE }), store)
  const middleware = (backend: string) => ({
    RATELIMIT_MIDDLEWARE: JSON.stringify({ BACKEND: backend, DEFAULT_RATE: '5/m' }),
  })
  for (const backend of ['redis', 'database', 'memory']) {
    assert.equal(backendFor({}, { ...REDIS, ...DATABASE, ...middleware(backend) }), backend)
  }
  assert.throws(
    () => backendFor({}, { ...REDIS, ...DATABASE }),
    /RATELIMIT_REDIS_URL and RATELIMIT_DATABASE_URL are both/,
  )
  assert.throws(() => backendFor({}, middleware('redis')), /"RATELIMIT_MIDDLEWARE.BACKEND" is "redis" without "redis"/)
  assert.throws(() => backendFor({}, middleware('mongo')), /"RATELIMIT_MIDDLEWARE.BACKEND" is "mongo"/)
  assert.throws(() => backendFor({ redis: 'redis://a', database: 'file:./a' }, {}), /"redis" and "database" are given/)
})

test('a wrong option names itself, its value and the remedy', async () => {
  const wrong: readonly [object, RegExp][] = [
    [{ redis: 'http://x' }, /Setting "redis"/],
    [{ store: {} }, /Setting "store" is \{\}, which is not a valid Store/],
    [{ store: { ...STORE, concurrency: Number.NaN } }, /"store" is a Store with the concurrency NaN: give 1 or more/],
    [{ store: { ...STORE, concurrency: 0 } }, /"store" is a Store with the concurrency 0/],
    [{ storeTimeoutMs: 0 }, /Setting "storeTimeoutMs" is 0/],
    [{ lease: '5s' }, /Setting "lease" is "5s": give a time such as 1s/],
    [{ middleware: {} }, /Setting "middleware" does not exist/],
    [{ hashHeaderKeys: true }, /"hashHeaderKeys" is true without "hashSecret"/],
    [{ privacy: { addresses: 'pseudonym' } }, /without "hashSecret"/],
    [{ log: {} }, /Setting "log" is not a logger/],
    [{ database: {} }, /createRateLimitClient did not create/],
    [{ lease: '1s', store: STORE }, /no method settle/],
  ]
  for (const [options, message] of wrong) await assert.rejects(createLimiter(options), message)
  for (const options of [null, 5, 'redis://127.0.0.1:6379']) {
    await assert.rejects(
      Reflect.apply(createLimiter, undefined, [options]),
      /createLimiter\(\) was given .*: give options/,
    )
  }
  assert.throws(
    () => resolveLimiter({}, { RATELIMIT_ON_STORE_ERROR: 'maybe' }),
    /"RATELIMIT_ON_STORE_ERROR" is "maybe"/,
  )
  assert.throws(() => resolveLimiter({}, { RATELIMIT_MIDDLEWARE: '[]' }), /RATELIMIT_MIDDLEWARE/)
  assert.throws(() => resolveLimiter({}, { RATELIMIT_MIDDLEWARE: '{"LEASE": 5}' }), /"RATELIMIT_MIDDLEWARE.LEASE" is 5/)
})

test('a wrong limit names the option', async () => {
  const limiter = await createLimiter()
  const wrong: readonly [object, RegExp][] = [
    [{ rate: '5/m' }, /Setting "limit.name" is missing/],
    [{ name: 'a' }, /Setting "limit.rate" is missing/],
    [{ name: 'default', rate: '5/m' }, /"default" is reserved/],
    [{ name: 'ü', rate: '5/m' }, /Setting "limit.name"/],
    [{ name: 'a', rate: '5' }, /Invalid rate "5"/],
    [{ name: 'a', rate: '5/m', cost: 6 }, /"limit.cost" is 6, more than/],
    [{ name: 'a', rate: '5/m', reserve: 1 }, /"limit.reserve" is 1, but requests/],
    [{ name: 'a', rate: '5/m', unit: 'tokens', cost: 2 }, /"limit.cost" is 2, but a limit of tokens/],
    [
      { name: 'a', rate: '5/m', unit: 'tokens', algorithm: 'concurrency' },
      /"limit.algorithm" counts requests in progress/,
    ],
    [{ name: 'a', rate: '5/month', algorithm: 'token_bucket' }, /calendar month/],
    [{ name: 'a', rate: '5/m', key: 'ip' }, /"limit.key" does not exist/],
  ]
  for (const [options, message] of wrong) assert.throws(() => Reflect.apply(limiter.limit, null, [options]), message)
  await limiter.close()
})

test('a wrong client, cost or amount rejects, and takes nothing', async () => {
  const limiter = await createLimiter({ clock: fakeClock() })
  const limit = limiter.limit({ name: 'jobs', rate: '5/m' })
  for (const client of [
    '',
    '  ',
    'user:',
    'user: ',
    'header:x-api-key:',
    'user:|ip:203.0.113.7',
    undefined,
    null,
    7,
    {},
  ]) {
    const consume = Reflect.apply(limit.consume, limit, [client])
    await assert.rejects(consume, /The client is .*: give a text such as user:7/, String(client))
  }
  for (const cost of [0, -1, 1.5, Number.NaN, 2 ** 31, '1']) {
    await assert.rejects(Reflect.apply(limit.consume, limit, ['all', { cost }]), InvalidSettingError)
  }
  for (const options of [5, null, '5']) {
    await assert.rejects(Reflect.apply(limit.consume, limit, ['all', options]), /The options are .*: give an object/)
  }
  for (const amount of [-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '1', undefined]) {
    await assert.rejects(Reflect.apply(limit.charge, limit, ['all', amount]), /The amount is .*: give a whole number/)
    await assert.rejects(Reflect.apply(limit.refund, limit, ['all', amount]), /The amount is .*: give a whole number/)
  }
  assert.equal((await limit.peek('all')).remaining, 5)
  await assert.rejects(limit.acquire('all'), /"jobs" counts requests over time, and has no acquire/)
  const permits = limiter.limit({ name: 'permits', rate: '5/m', algorithm: 'concurrency' })
  for (const method of ['consume', 'charge', 'refund'] as const) {
    await assert.rejects(permits[method]('all', 1 as never), /"permits" counts requests in progress, and has no/)
  }
  await limiter.close()
  for (const method of ['consume', 'peek', 'reset'] as const) {
    await assert.rejects(limit[method]('all'), /The limiter is closed/)
  }
})

test('clients of one identity count together in any spelling, and texts of strangers meet no other client', async () => {
  const secret = { hashSecret: 'a secret of the host, long enough' } as const
  for (const options of [{}, { ...secret, privacy: { addresses: 'pseudonym' } }] as const) {
    const limiter = await createLimiter({ clock: fakeClock(), ...options })
    const limit = limiter.limit({ name: 'jobs', rate: '100/d' })
    const same = [
      ['ip:203.0.113.7', 'ip:::ffff:203.0.113.7', 'ip:203.0.113.7/32'],
      ['ip:2001:db8::1', 'ip:2001:DB8:0::ffff', 'ip:2001:db8::/64'],
      ['header:X-Api-Key:abc', 'header:x-api-key:abc'],
      ['user:7', 'user:7'],
      ['job-12', 'key:job-12'],
      ['user:7|ip:203.0.113.7', 'user:7|ip:::ffff:203.0.113.7'],
    ]
    for (const texts of same) {
      let used = 0
      for (const text of texts) assert.equal((await limit.consume(text)).count, ++used, text)
    }
    const long = 'x'.repeat(10_000)
    const apart = [
      'key:user:7',
      'key:ip:203.0.113.7',
      'key:all',
      'key:user:7|ip:203.0.113.7',
      'KEY:job-12',
      'user:07',
      `key:${long}`,
      `key:${long}y`,
      `header:${long}:a`,
      `header:${long}:b`,
      'key:\ud800',
      'key:\udfff',
      'key:\u0000',
      'a|b',
      'a\\|b',
      'all',
    ]
    for (const text of apart) assert.equal((await limit.consume(text)).count, 1, text.slice(0, 30))
    await limiter.close()
  }
})

test('turned off, everything is allowed, and nothing is opened', async () => {
  const limiter = await createLimiter({ enabled: false, redis: 'redis://127.0.0.1:1', log: SILENT })
  const limit = limiter.limit({ name: 'jobs', rate: '1/m, 5/h' })
  for (let count = 0; count < 3; count++) assert.equal((await limit.consume('all')).allowed, true)
  const permit = await limiter.limit({ name: 'permits', rate: '0/m', algorithm: 'concurrency' }).acquire('all')
  assert.equal(permit.allowed, true)
  permit.release()
  await limit.charge('all', 7)
  await limit.refund('all', 7)
  await limit.resetAll()
  await limiter.close()
})

/** A store that fails as long as it is told to. */
class FailingStore implements Store {
  readonly concurrency = 1
  readonly memory = new MemoryStore()
  fails = false

  async check(checks: readonly Check[], nowMs: number): Promise<readonly Decision[]> {
    if (this.fails) throw new Error('away')
    return this.memory.check(checks, nowMs)
  }

  async settle(...settled: Parameters<MemoryStore['settle']>): Promise<void> {
    if (this.fails) throw new Error('away')
    this.memory.settle(...settled)
  }

  async reset(keys: readonly string[]): Promise<void> {
    if (this.fails) throw new Error('away')
    this.memory.reset(keys)
  }

  close(): void {
    this.memory.close()
  }
}

test('while the store fails onStoreError decides, charges are owed, and the log has one line', long(), async () => {
  for (const [onStoreError, answers] of [
    ['local', [true, true, false]],
    ['allow', [true, true, true]],
    ['deny', [false, false, false]],
  ] as const) {
    const store = new FailingStore()
    const clock = fakeClock()
    const lines: string[] = []
    const log = { ...SILENT, error: (_details: object, message: string) => lines.push(message) }
    const limiter = await createLimiter({ store, onStoreError, clock, log })
    const limit = limiter.limit({ name: 'jobs', rate: '2/m', unit: 'tokens', reserve: 1 })
    store.fails = true
    const decisions = []
    for (let count = 0; count < 3; count++) decisions.push((await limit.consume('all')).allowed)
    assert.deepEqual(decisions, answers, onStoreError)
    assert.equal(await limit.charge('all', 1), null)
    await assert.rejects(limit.reset('all'), /away/)
    assert.deepEqual(lines.length, 1)
    assert.match(lines[0] ?? '', /Rate limit store failed: onStoreError decides/)
    store.fails = false
    await eventually('the store has the charge, and nothing else', async () => {
      clock.advance(1)
      const { allowed, remaining } = await limit.peek('all')
      return allowed && remaining === 1
    })
    await limiter.close()
  }
})

test('a store without settle or resetAll says so where they are needed', async () => {
  const { check, reset, close } = MemoryStore.prototype
  const store: Store = { concurrency: 1, check, reset, close }
  const limiter = await createLimiter({ store, log: SILENT })
  const limit = limiter.limit({ name: 'jobs', rate: '2/m' })
  await assert.rejects(limit.refund('all', 1), /refund\(\) was called, but the Store of the host has no method settle/)
  await assert.rejects(limit.resetAll(), /resetAll\(\) was called, but the Store of the host has no method resetAll/)
  assert.throws(
    () => limiter.limit({ name: 'jobs', rate: '2/m', algorithm: 'concurrency' }),
    /"limit.algorithm" is "concurrency", but the Store of the host has no method settle/,
  )
  await limiter.close()
})

const HEAVY = [
  'fastify',
  'fastify-plugin',
  '../../generated/handlebars.js',
  'nodemailer',
  'adminjs',
  '@prisma/client',
  'typebox',
]

/** Creates a limiter where none of an app's packages is to be found, and prints which files of this package are loaded. */
function program(options: string, checks: string): string {
  return `
    import { createLimiter } from ${JSON.stringify(moduleUrl('src/limiter'))}
    const limiter = await createLimiter(${options})
    const limit = limiter.limit({ name: 'jobs', rate: '2/m' })
    ${checks}
    await limiter.close()
    const { cache } = (await import('node:module')).createRequire(import.meta.url)
    console.log(Object.keys(cache).filter((file) => /generated-client|better-sqlite3|ioredis|[/]pg[/]/.test(file)).length > 0)
  `
}

test('in memory a limiter needs no Fastify, no driver, no template engine and no mailer', async (t) => {
  const missing = [...HEAVY, 'ioredis', 'pg', 'better-sqlite3']
  const { stdout } = await runProgram(t, program('', `console.log((await limit.consume('user:7')).remaining)`), {
    missing,
  })
  assert.match(stdout, /^1\nfalse\n/)
})

test('with a database a limiter needs no Fastify and no Prisma, and creates the file', async (t) => {
  const options = `{ database: 'file:./counters.db' }`
  const source = program(options, `console.log((await limit.consume('user:7')).remaining)`)
  const { stdout, files } = await runProgram(t, source, { missing: HEAVY })
  assert.match(stdout, /^1\n/)
  assert.ok(files.includes('counters.db'))
})
