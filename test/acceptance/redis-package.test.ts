/** ioredis is an optional peer: it is loaded where it is needed, and its connections let the process end. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { long } from '../support/long.js'
import { runApps } from '../support/optional-peers.js'
import { REDIS_URL, redisMissing } from '../support/redis.js'

test(
  'without ioredis everything else works, and a Redis URL is refused at start with the remedy',
  long(),
  async (t) => {
    const memory = { middleware: { backend: 'memory' } }
    const redis = { redis: REDIS_URL, middleware: { backend: 'redis' } }
    const { stdout } = await runApps(t, [memory, redis], 'ioredis')

    assert.match(stdout, /^remaining 99\nFST_RATE_LIMIT_INVALID_SETTING Setting "redis".*ioredis.*npm install ioredis/)
  },
)

test(
  'an app with its counters in Redis leaves no file behind, and its process ends when it is closed',
  long(redisMissing),
  async (t) => {
    const namespace = `test_${process.pid}_${Date.now()}`
    const rateLimit = { defaultRate: '100/s', backend: 'redis' }
    const { stdout, files } = await runApps(t, [{ redis: REDIS_URL, namespace, middleware: rateLimit }])

    assert.match(stdout, /remaining 99/)
    assert.deepEqual(files, [])
  },
)
