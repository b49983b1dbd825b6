/** What one check or one event holds never fails those that are written together with it. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import pg from 'pg'
import type { Check, Store } from '../../../src/index.js'
import type { Decision } from '../../../src/limiter/algorithm.js'
import { RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import { PartlyDecidedError } from '../../../src/limiter/batch-store.js'
import { MemoryStore } from '../../../src/limiter/stores/memory/memory-store.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../../src/log/event.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { forEachDatabase } from '../../support/databases.js'
import { EVENT } from '../../support/events.js'
import { eventually } from '../../support/eventually.js'
import { long } from '../../support/long.js'
import { fc } from '../../support/properties.js'
import { foldRollups } from '../../support/rollups.js'
import { openStore } from '../../support/store-location.js'
import { forEachStore, onRedisCluster, type TestStore } from '../../support/stores.js'

const NOW_MS = 1_705_161_600_000
const MAX_LIMIT = 2_147_483_647
const DAY_MS = 86_400_000
const SETTLED_TABLES = [
  ['fixed_window', 'rate_limit_counter'],
  ['sliding_window', 'rate_limit_sliding_window'],
  ['concurrency', 'rate_limit_concurrency'],
] as const
const BATCHES = 40
const BATCH_SIZE = 40
/** What other statements can have written as the windows of a counter: texts on SQLite, arrays on PostgreSQL. */
const BROKEN_TEXTS = ['abc', '', '1,2,3', '1,1,60000,x,y,z,1,2', `${'9'.repeat(30)},1,2,3,4,5,6,7,8`, "'{1}"]
const BROKEN_ARRAYS = [
  '{}',
  '{1,2,3}',
  '{1,1,60000,NULL,NULL,NULL,1,2}',
  '{{1,1,60000,1,1,1,1,1},{1,1,60000,1,1,1,1,1}}',
  '[0:7]={1,1,86400000,9223372036854775807,1,9223372036854775807,43200000,1}',
  ...[3, 5, 6].flatMap((size) => {
    const window = (number: string) => [`${DAY_MS / 2}`, ...Array<string>(size - 1).fill(number)]
    return ['9223372036854775807', '-9223372036854775808'].map((number) => `{1,1,${window(number)},${window(number)}}`)
  }),
]

function seedOf(t: TestContext): number {
  const seed = Number(process.env.TEST_SEED ?? Date.now() % 2 ** 31)
  t.diagnostic(`seed ${seed} (TEST_SEED)`)
  return seed
}

const letters = fc.constantFrom(
  ...'a A % _ \' " \\ { } | : \0 \x01 \x7f \u2028 \ufeff \uffff \ud800 \udfff 😀 é 鍵'.split(' '),
  ' ',
)
const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 20 }),
  fc.array(letters, { maxLength: 300, size: 'max' }).map((some) => some.join('')),
  // What does not compress, so that indexes hold all of it.
  fc
    .array(fc.integer({ min: 0x3400, max: 0xd7ff }), { minLength: 600, maxLength: 600 })
    .map((codes) => String.fromCharCode(...codes)),
)

/** Whatever a client may send and a host may set. */
const checks: fc.Arbitrary<Check> = fc.record({
  key: texts,
  policy: fc.record({
    algorithm: fc.constantFrom(...RATE_ALGORITHMS),
    limit: fc.oneof(fc.constantFrom(0, 1, MAX_LIMIT), fc.nat(MAX_LIMIT)),
    periodMs: fc.constantFrom(1_000, 60_000, 366 * DAY_MS),
  }),
  cost: fc.oneof(fc.constantFrom(0, 1, MAX_LIMIT), fc.nat(MAX_LIMIT)),
  charges: fc.boolean(),
})

function proveStore(name: string, open: () => Promise<TestStore>): void {
  test(`no check fails the others of its batch on ${name}`, long(), async (t) => {
    const { location, close } = await open()
    const store = openStore(location)
    const some = fc.sample(checks, { seed: seedOf(t), numRuns: BATCHES * BATCH_SIZE })
    try {
      for (let batch = 0; batch < BATCHES; batch++) {
        const neighbours = RATE_ALGORITHMS.map((algorithm) => ({
          key: `neighbour ${batch}`,
          policy: { algorithm, limit: 5, periodMs: 60_000 },
          cost: 1,
        }))
        const checks = [...some.slice(batch * BATCH_SIZE, (batch + 1) * BATCH_SIZE), ...neighbours]
        const decisions = await store.check(checks, NOW_MS)
        assert.deepEqual(
          decisions.slice(-neighbours.length).map(({ allowed, count }) => [allowed, count]),
          neighbours.map(() => [true, 1]),
        )
      }
    } finally {
      await store.close()
      await close()
    }
  })
}

forEachStore(proveStore)
onRedisCluster(proveStore)

test('no check fails in memory', (t) => {
  const store = new MemoryStore()
  for (const check of fc.sample(checks, { seed: seedOf(t), numRuns: BATCHES * BATCH_SIZE })) {
    for (const policy of [check.policy, { ...check.policy, algorithm: 'concurrency' } as const]) {
      assert.equal(store.check([{ ...check, policy }], NOW_MS).length, 1)
    }
  }
})

forEachDatabase((provider) => {
  test('a window that has counted as much as its column holds refuses its client, and fails no other check', async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const store = new DatabaseStore({ database: client })
    const ask = (...keys: string[]) =>
      store.check(
        keys.map((key) => ({
          key,
          policy: { algorithm: 'fixed_window', limit: 5, periodMs: DAY_MS },
          cost: MAX_LIMIT,
        })),
        NOW_MS,
      )
    await ask('busy')
    for (const count of ['9007199254740991', '9223372036854775807']) {
      await database.execute(`UPDATE ${database.dialect.table('rate_limit_counter')} SET count = ${count}`)
      const decisions = await ask('other', 'busy', 'busy', `${count}`)
      assert.deepEqual(
        decisions.map(({ allowed, limit }) => [allowed, limit]),
        Array(4).fill([false, 5]),
      )
      assert.equal(decisions[3]?.count, MAX_LIMIT)
      for (const { count } of decisions) assert.ok(count > 5)
    }
  })

  for (const algorithm of RATE_ALGORITHMS) {
    test(`a row whose windows were made wrong counts as none, and fails no other check: ${algorithm}`, async (t) => {
      const { client, database } = await openDatabase(t, provider)
      const store = new DatabaseStore({ database: client })
      const policy = { algorithm, limit: 5, periodMs: DAY_MS }
      const windows = ['d', 'm'].map((period, index) => ({ limit: 5, periodMs: DAY_MS / (index + 1), period }))
      const table = algorithm === 'fixed_window' ? 'rate_limit_counter' : `rate_limit_${algorithm}`
      for (const broken of provider === 'sqlite' ? BROKEN_TEXTS : BROKEN_ARRAYS) {
        for (const each of [{ ...policy, windows }, policy]) {
          const keys = [`broken ${broken}`, `other ${broken} ${each === policy}`]
          const checks = keys.map((key) => ({ key, policy: each, cost: 1 }))
          await store.check([{ key: keys[0] ?? '', policy: { ...policy, windows }, cost: 1 }], NOW_MS)
          const text = broken.replaceAll("'", "''")
          await database.execute(`UPDATE ${database.dialect.table(table)} SET windows = '${text}' WHERE key = $1`, [
            keys[0] ?? '',
          ])
          for (const count of [1, 2]) {
            const decisions = await store.check(checks, NOW_MS)
            assert.deepEqual(
              decisions.map((decision) => decision.count),
              [count, count],
              broken,
            )
          }
        }
      }
    })
  }

  test('a row whose permits were made wrong counts as none, and fails no other check or settlement', async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const store = new DatabaseStore({ database: client })
    const policy = { algorithm: 'concurrency', limit: 5, periodMs: DAY_MS } as const
    const take = (key: string, permit: number) => ({ key, policy, cost: 1, permit })
    const counts = async (...checks: Check[]) => (await store.check(checks, NOW_MS)).map(({ count }) => count)
    for (const broken of [
      '[[1,2',
      '',
      'abc',
      '{}',
      '[1,2]',
      '["abc"]',
      '[[1,2]]',
      '[[1,"a",2]]',
      '[[1,99999999999999999999,1]]',
    ]) {
      await counts(take('broken', 1))
      const table = database.dialect.table('rate_limit_concurrency')
      await database.execute(`UPDATE ${table} SET permits = $1, first_ms = 0 WHERE key = 'broken'`, [broken])
      assert.deepEqual(await counts(take('broken', 2), take(broken, 3)), [1, 1], broken)
      await database.execute(`UPDATE ${table} SET permits = $1 WHERE key = 'broken'`, [broken])
      await store.settle([take('broken', 2), take(broken, 3)], NOW_MS)
      assert.deepEqual(await counts({ ...take('broken', 0), cost: 0 }, { ...take(broken, 0), cost: 0 }), [0, 0], broken)
    }
  })

  for (const [algorithm, name] of SETTLED_TABLES) {
    test(`a settlement locks counters in the order of checks, so that neither waits for the other: ${algorithm}`, {
      skip: provider === 'sqlite' && 'SQLite has one writer at a time, and no rows to lock',
    }, async (t) => {
      const { url, client, database } = await openDatabase(t, provider)
      const store = new DatabaseStore({ database: client })
      // UTF-8 has them in the other order.
      const [first, second] = ['\u{10000}', '\uffff']
      const policy = { algorithm, limit: 5, periodMs: DAY_MS }
      const marks = [Math.ceil(NOW_MS / DAY_MS) * DAY_MS]
      const taken = [first, second].map((key, permit) => ({ key, policy, cost: 1, permit, marks }))
      await store.check(taken, NOW_MS)
      const other = new pg.Client({ connectionString: url })
      await other.connect()
      atEnd(t, () => other.end())
      const table = database.dialect.table(name)
      const lock = (key: string, wait = '') =>
        other.query(`SELECT FROM ${table} WHERE key = $1 FOR UPDATE ${wait}`, [key])
      await other.query('BEGIN')
      await lock(first)
      const settled = store.settle(taken, NOW_MS)
      const waiting = `SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1`
      await eventually('the settlement waits', async () => {
        return (await database.query(waiting, [`%${table}%`])).length > 0
      })
      await lock(second, 'NOWAIT')
      await other.query('COMMIT')
      await settled
    })
  }

  test(
    'a batch behind the one that met a locked counter decides about the others at once',
    long(provider === 'sqlite' && 'SQLite has no rows to lock'),
    async (t) => {
      const { url, client, database } = await openDatabase(t, provider)
      const lockTimeoutMs = 1_000
      const store = new DatabaseStore({ database: client }, lockTimeoutMs)
      const policy = { algorithm: 'fixed_window', limit: 5, periodMs: DAY_MS } as const
      const check = (key: string): Check => ({ key, policy, cost: 1 })
      await store.check([check('locked')], NOW_MS)
      const other = new pg.Client({ connectionString: url })
      await other.connect()
      atEnd(t, () => other.end())
      await other.query('BEGIN')
      await other.query(`SELECT FROM ${database.dialect.table('rate_limit_counter')} WHERE key = 'locked' FOR UPDATE`)
      const decided = () =>
        store.check([check('locked'), check('free')], NOW_MS).catch((error: unknown) => {
          if (!(error instanceof PartlyDecidedError)) throw error
          return error.decisions
        })
      const counts = async () => (await decided()).map((decision) => decision?.count)

      assert.deepEqual(await counts(), [undefined, 1])
      const startedMs = performance.now()
      assert.deepEqual(await counts(), [undefined, 2])
      assert.ok(performance.now() - startedMs < lockTimeoutMs, 'it did not wait again')
      await other.query('COMMIT')
      await store.check([check('locked')], NOW_MS)
      assert.deepEqual(await counts(), [3, 3], 'a lock that has ended is forgotten')
    },
  )

  test('no event is refused by the table, whatever is in it', long(), async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const numbers = fc.oneof(fc.double(), fc.constantFrom(Number.MAX_SAFE_INTEGER, 2 ** 63, 1e300, -1, 0.5))
    const events: fc.Arbitrary<RateLimitEvent> = fc.record({
      timestampMs: fc.oneof(fc.constant(NOW_MS), numbers),
      key: texts,
      ruleName: fc.string({ maxLength: 200 }),
      path: texts,
      method: texts,
      allowed: fc.boolean(),
      count: numbers,
      limit: numbers,
      ipAddress: fc.constantFrom(null, '203.0.113.7', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'),
      userId: fc.oneof(fc.constant(null), fc.maxSafeInteger()),
      clientIp: fc.constantFrom(null, '203.0.113.7', 'ffff:ffff:ffff:ffff::/64'),
      client: texts,
      policy: texts,
      outcome: fc.constantFrom('allowed', 'over_limit', 'denied', 'unavailable'),
      rules: texts,
    })
    const rows = fc.sample(events, { seed: seedOf(t), numRuns: BATCHES * BATCH_SIZE }).map(eventValues)
    for (let batch = 0; batch < BATCHES; batch++) {
      const some = rows.slice(batch * BATCH_SIZE, (batch + 1) * BATCH_SIZE)
      await database.execute(insertEventsSql(database.dialect), [JSON.stringify(some)])
    }
    await foldRollups(database)
    assert.equal(await client.rateLimitEvent.count(), rows.length)
    assert.equal((await client.rateLimitEvent.findMany()).length, rows.length, 'and each can be read')
  })

  test("what a host's own store answers of one client takes no event of another one along", async (t) => {
    const database = await openDatabase(t, provider)
    const memory = new MemoryStore()
    const odd = [Number.NaN, Number.POSITIVE_INFINITY, -5, 1.5, 1e300, undefined, null, 'many']
    const store: Store = {
      concurrency: 1,
      async check(checks, nowMs) {
        return memory.check(checks, nowMs).map((decision, index): Decision => {
          const digit = /odd-(\d)$/.exec(checks[index]?.key ?? '')?.[1]
          const value = odd[Number(digit)] as number
          return digit === undefined ? decision : { ...decision, count: value, limit: value }
        })
      },
      reset: (keys) => memory.reset(keys),
      close: () => undefined,
    }
    const { app, request } = await startApp(t, {
      database,
      plugin: { logEvents: true, middleware: { backend: store, key: 'header:x-key' } },
    })
    const keys = [...odd.map((_value, index) => `odd-${index}`), 'even']
    const answers = await Promise.all(keys.map((key) => request('/', { headers: { 'x-key': key } })))
    for (const { status } of answers) assert.equal(status, 200)
    await app.smartRateLimit.events.flush()

    assert.equal(app.smartRateLimit.events.stats().dropped, 0)
    const logged = await database.client.rateLimitEvent.findMany({ orderBy: { key: 'asc' } })
    assert.deepEqual(
      logged.map(({ key }) => key),
      keys.map((key) => `header:${key}`).sort(),
    )
  })
})

describe('an event', () => {
  test('keeps what a table can hold, and the nearest of what it cannot', () => {
    const valuesOf = (timestampMs: number, count: number, limit: number) => {
      const values = eventValues({ ...EVENT, timestampMs, count, limit })
      return [values[0], values[6], values[7]]
    }
    assert.deepEqual(valuesOf(NOW_MS, 7, 5), [NOW_MS, 7, 5])
    assert.deepEqual(valuesOf(NOW_MS + 0.9, 7.9, 5.1), [NOW_MS, 7, 5])
    assert.deepEqual(valuesOf(1e300, 1e300, 1e300), [253_402_300_799_999, Number.MAX_SAFE_INTEGER, MAX_LIMIT])
    assert.deepEqual(valuesOf(Number.NaN, Number.NaN, Number.NaN), [0, 0, 0])
    assert.deepEqual(valuesOf(-1, -1, -1), [0, 0, 0])
  })
})
