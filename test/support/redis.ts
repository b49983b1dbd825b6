import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { errorMessage } from '../../src/ground/errors.js'
import { atEnd } from './at-end.js'

export const REDIS_URL = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'

/** The reason why Redis is left out, or `false`. Continuous integration never leaves it out: there its tests fail. */
export const redisMissing = process.env.CI === undefined ? await probeRedis() : false

export interface TestRedis {
  readonly url: string
  /** The counters of the test, apart from those of all others. */
  readonly namespace: string
  readonly client: Redis
  /** The keys of the namespace. */
  keys(): Promise<string[]>
  /** Removes all counters of the namespace, and closes the client. */
  close(): Promise<void>
}

export function openTestRedis(): TestRedis {
  const client = new Redis(REDIS_URL)
  const namespace = `test_${randomBytes(8).toString('hex')}`
  async function keys(): Promise<string[]> {
    const found = new Set<string>()
    for await (const some of client.scanStream({ match: `fsr:${namespace}*`, count: 1_000 })) {
      for (const key of some) found.add(key)
    }
    return [...found]
  }
  return {
    url: REDIS_URL,
    namespace,
    client,
    keys,
    async close() {
      const left = await keys()
      if (left.length > 0) await client.unlink(left)
      client.disconnect()
    },
  }
}

/** A Redis whose counters the end of the test removes. */
export function openRedis(t: TestContext): TestRedis {
  const redis = openTestRedis()
  atEnd(t, redis.close)
  return redis
}

async function probeRedis(): Promise<string | false> {
  const client = new Redis(REDIS_URL, { lazyConnect: true, retryStrategy: () => null, connectTimeout: 2_000 })
  let reason: unknown = 'no answer'
  client.on('error', (error) => {
    reason = error
  })
  try {
    await client.connect()
    return false
  } catch {
    return `no Redis at ${REDIS_URL} (TEST_REDIS_URL): ${errorMessage(reason)}`
  } finally {
    client.disconnect()
  }
}
