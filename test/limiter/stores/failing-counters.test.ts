/** What is wrong with one counter fails that counter alone: others of its batch are advanced, and given back. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import type { Redis } from 'ioredis'
import type { Database } from '../../../src/database/database.js'
import type { Store } from '../../../src/index.js'
import { ALGORITHMS, type Algorithm, type Check } from '../../../src/limiter/algorithm.js'
import {
  type Answers,
  PartlyDecidedError,
  PartlySettledError,
  settlementsLeft,
} from '../../../src/limiter/batch-store.js'
import { parseRate, toPolicy } from '../../../src/limiter/rate.js'
import { toSettlement } from '../../../src/limiter/settlement.js'
import { RedisStore } from '../../../src/limiter/stores/redis/redis-store.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase } from '../../support/build-app.js'
import { forEachDatabase } from '../../support/databases.js'
import { ownRedisMissing, startOwnRedis } from '../../support/own-redis.js'
import { openRedis, redisMissing } from '../../support/redis.js'

const NOW_MS = 1_705_161_600_000
/** The fewest numbers that the script takes for a counter, of which it cannot calculate with the last one. */
const BROKEN = { f: '86400000 1705104000000 x', s: '86400000 1705104000000 1 1 x', t: '86400000 1 9 1 0 x' } as const

const LETTERS = {
  fixed_window: 'f',
  sliding_window: 's',
  token_bucket: 't',
  leaky_bucket: 'l',
  concurrency: 'c',
} as const satisfies Record<Algorithm, string>

interface Fault {
  begin(): Promise<unknown>
  end(): Promise<unknown>
}

/** Decides checks together; undefined for those whose counter has failed. */
async function decide(store: Store, checks: readonly Check[]): Promise<Answers> {
  try {
    return await store.check(checks, NOW_MS)
  } catch (error) {
    if (error instanceof PartlyDecidedError) return error.decisions
    throw error
  }
}

/** Proves that the counter of the key `broken` fails alone during a fault, and goes on after it. */
async function proveAlone(store: Store, algorithm: Algorithm, rate: string, fault: Fault): Promise<void> {
  const policy = toPolicy(algorithm, parseRate(rate))
  let permit = 0
  const toCheck = (key: string, cost = 1) => ({ key, policy, cost, permit: ++permit })
  const counts = async (...checks: Check[]) => (await decide(store, checks)).map((decision) => decision?.count)
  const others = ['first', 'second', 'third']
  const keys = ['first', 'broken', 'second', 'third']
  const healthy = store.partOf?.('broken')
  await fault.begin()

  assert.deepEqual(await counts(...keys.map((key) => toCheck(key))), [1, undefined, 1, 1])
  const taken = keys.map((key) => toCheck(key))
  const decisions = await decide(store, taken)
  assert.deepEqual(
    decisions.map((decision) => decision?.count),
    [2, undefined, 2, 2],
  )
  assert.match(String(store.partOf?.('broken')), /^a .+ \([0-9a-f]{8}\)$/)
  for (const key of others) assert.equal(store.partOf?.(key), healthy)
  await assert.rejects(async () => store.check([toCheck('broken')], NOW_MS), 'alone it fails, as a part of its own')

  const settlements = taken.map((check, index) => {
    const decision = decisions[index] ?? decisions[0]
    assert.ok(decision)
    return toSettlement(check, decision, NOW_MS)
  })
  try {
    await store.settle?.(settlements, NOW_MS)
  } catch (error) {
    assert.ok(error instanceof PartlySettledError, String(error))
    assert.deepEqual(settlementsLeft(error), [settlements[1]], 'it tells what is left')
  }
  assert.deepEqual(await counts(...others.map((key) => toCheck(key))), [2, 2, 2], 'the others got theirs back')

  await fault.end()
  assert.deepEqual(await counts(toCheck('broken')), [1])
  assert.equal(store.partOf?.('broken'), healthy)
}

forEachDatabase((provider) => {
  for (const algorithm of ALGORITHMS) {
    for (const rate of ratesFor(algorithm)) {
      test(`a row that the database refuses fails its counter alone: ${algorithm}, ${rate}`, async (t) => {
        const { client, database } = await openDatabase(t, provider)
        await proveAlone(new DatabaseStore({ database: client }), algorithm, rate, refusedRow(database, algorithm))
      })
    }
  }

  test('what the database refuses of all counters is a failure of the store', async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const store = new DatabaseStore({ database: client })
    const table = database.dialect.table('rate_limit_counter')
    const sql =
      provider === 'sqlite'
        ? `CREATE TRIGGER refuse BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'none'); END`
        : `ALTER TABLE ${table} ADD CONSTRAINT refuse CHECK (false)`
    await database.execute(sql)
    const policy = toPolicy('fixed_window', parseRate('9/d'))
    const checks = ['a', 'b', 'c'].map((key) => ({ key, policy, cost: 1 }))
    await assert.rejects(decide(store, checks))
    for (const { key } of checks) assert.equal(store.partOf(key), '')
  })
})

describe('on Redis', { skip: redisMissing }, () => {
  for (const algorithm of ALGORITHMS) {
    for (const rate of ratesFor(algorithm)) {
      test(`a key of another type fails its counter alone, and stays: ${algorithm}, ${rate}`, async (t) => {
        await proveKey(t, algorithm, rate, (redis, key) => redis.lpush(key, 'a list'))
      })
    }
  }

  for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket'] as const) {
    test(`a key of which the script cannot make a counter fails its counter alone: ${algorithm}`, async (t) => {
      await proveKey(t, algorithm, '9/d', (redis, key) => redis.set(key, BROKEN[LETTERS[algorithm]]))
    })
  }
})

test('what Redis refuses of every key is a failure of the store', { skip: ownRedisMissing }, async (t) => {
  const { url, client } = await startOwnRedis(t)
  const store = new RedisStore({ redis: url.href })
  atEnd(t, () => store.close())
  const policy = toPolicy('fixed_window', parseRate('9/d'))
  const checks = ['a', 'b'].map((key) => ({ key, policy, cost: 1 }))
  for (const [begin, end, told] of [
    [() => client.config('SET', 'maxmemory', '1'), () => client.config('SET', 'maxmemory', '0'), /^Redis: OOM/],
    [() => client.replicaof('127.0.0.1', 1), () => client.replicaof('NO', 'ONE'), /^Redis: READONLY/],
  ] as const) {
    await begin()
    await assert.rejects(decide(store, checks), { message: told })
    for (const { key } of checks) assert.equal(store.partOf(key), '')
    await end()
  }
})

async function proveKey(
  t: TestContext,
  algorithm: Algorithm,
  rate: string,
  fill: (redis: Redis, key: string) => Promise<unknown>,
): Promise<void> {
  const { url, namespace, client } = openRedis(t)
  const key = `fsr:${namespace}:${LETTERS[algorithm]}:{broken}`
  const store = new RedisStore({ redis: url, namespace })
  try {
    await proveAlone(store, algorithm, rate, {
      begin: () => fill(client, key),
      async end() {
        assert.equal(await client.exists(key), 1, 'it is as it was')
        await store.reset(['broken'])
      },
    })
  } finally {
    await store.close()
  }
}

function ratesFor(algorithm: Algorithm): readonly string[] {
  return algorithm === 'concurrency' ? ['9/d'] : ['9/d', '9/h, 20/d']
}

/** A host's rule about the rows of a table, by which one is refused. */
function refusedRow(database: Database, algorithm: Algorithm): Fault {
  const { dialect } = database
  const table = dialect.table(algorithm === 'fixed_window' ? 'rate_limit_counter' : `rate_limit_${algorithm}`)
  const run = async (statements: readonly string[]) => {
    for (const sql of statements) await database.execute(sql)
  }
  if (dialect.provider === 'postgresql') {
    return {
      begin: () => run([`ALTER TABLE ${table} ADD CONSTRAINT refuse CHECK (key <> 'broken')`]),
      end: () => run([`ALTER TABLE ${table} DROP CONSTRAINT refuse`]),
    }
  }
  const events = ['INSERT', 'UPDATE']
  return {
    begin: () =>
      run(
        events.map(
          (event) => `CREATE TRIGGER refuse_${event} BEFORE ${event} ON ${table} WHEN NEW.key = 'broken'
            BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
        ),
      ),
    end: () => run(events.map((event) => `DROP TRIGGER refuse_${event}`)),
  }
}
