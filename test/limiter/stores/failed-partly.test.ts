/** A batch that fails in part tells what was taken, so that no charge is taken twice, and nothing given back twice. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Cluster } from 'ioredis'
import type { Check } from '../../../src/limiter/algorithm.js'
import { createSafeLimiter } from '../../../src/limiter/safe-limiter.js'
import { toSettlement } from '../../../src/limiter/settlement.js'
import { RedisStore } from '../../../src/limiter/stores/redis/redis-store.js'
import { DatabaseStore } from '../../../src/limiter/stores/sql/database-store.js'
import type { Store } from '../../../src/limiter/stores/store.js'
import { atEnd } from '../../support/at-end.js'
import { openDatabase } from '../../support/build-app.js'
import { forEachDatabase } from '../../support/databases.js'
import { PASSES } from '../../support/fallbacks.js'
import { long } from '../../support/long.js'
import { clusterMissing, startCluster } from '../../support/redis-cluster.js'

const NOW_MS = 1_705_161_600_000

function checkOf(key: string, algorithm: 'fixed_window' | 'token_bucket'): Check {
  return { key, policy: { algorithm, limit: 100, periodMs: 60_000 }, cost: 30 }
}

function limiterOf(store: Store) {
  return createSafeLimiter({
    store,
    fallback: PASSES,
    now: () => NOW_MS,
    timeoutMs: 10_000,
    log: { error: () => undefined, info: () => undefined },
  })
}

/** Charges together, and returns how many of the charges are owed. */
async function charge(store: Store, checks: readonly Check[]) {
  const limiter = limiterOf(store)
  try {
    await Promise.all(checks.map(async (check) => limiter.charge(check, NOW_MS)))
    return limiter.owedCharges
  } finally {
    await limiter.close()
  }
}

/** Takes and gives back together, and returns how many refunds are owed. */
async function refund(store: Store, checks: readonly Check[], breakStore: () => Promise<unknown>) {
  const limiter = limiterOf(store)
  try {
    const taken = await Promise.all(
      checks.map(async (check) => toSettlement(check, await limiter.check(check, NOW_MS), NOW_MS)),
    )
    await breakStore()
    await Promise.all(taken.map(async (settlement) => limiter.settle(settlement, NOW_MS)))
    return limiter.owedRefunds
  } finally {
    await limiter.close()
  }
}

forEachDatabase((provider) => {
  test('of two statements, one of which fails, only its refunds are owed', async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const store = new DatabaseStore({ database: client })
    const [fixed, bucket] = [checkOf('a', 'fixed_window'), checkOf('a', 'token_bucket')]
    const breakStore = () =>
      database.execute(`ALTER TABLE ${database.dialect.table('rate_limit_token_bucket')} RENAME TO elsewhere`)
    assert.equal(await refund(store, [bucket, fixed, bucket], breakStore), 2)
    assert.equal((await store.check([{ ...fixed, cost: 0 }], NOW_MS))[0]?.count, 0)
  })

  test('of two statements, one of which fails, only its charges are owed', async (t) => {
    const { client, database } = await openDatabase(t, provider)
    const store = new DatabaseStore({ database: client })
    await database.execute(`ALTER TABLE ${database.dialect.table('rate_limit_token_bucket')} RENAME TO elsewhere`)
    const [fixed, bucket] = [checkOf('a', 'fixed_window'), checkOf('a', 'token_bucket')]
    assert.equal(await charge(store, [bucket, fixed, bucket]), 2)
    assert.equal((await store.check([{ ...fixed, cost: 0 }], NOW_MS))[0]?.count, 30)
  })
})

test(
  'of two counters in a cluster, one of which fails, only the charge of that is owed',
  long(clusterMissing),
  async (t) => {
    const { url, stop } = await startCluster()
    atEnd(t, stop)
    const redis = new Cluster([url])
    atEnd(t, () => redis.disconnect())
    const store = new RedisStore({ redis, namespace: 'partly' })
    // Both are in one slot, and so a part of one node.
    const checks = [checkOf('a', 'fixed_window'), checkOf('a', 'token_bucket')]
    await redis.hset('fsr:partly:t:{a}', 'no', 'counter')
    assert.equal(await charge(store, checks), 1)
    assert.equal((await store.check([{ ...checkOf('a', 'fixed_window'), cost: 0 }], NOW_MS))[0]?.count, 30)
  },
)
