/** How checks reach the nodes of a cluster. */
import assert from 'node:assert/strict'
import { Socket } from 'node:net'
import { test } from 'node:test'
import { Cluster } from 'ioredis'
import { RedisStore } from '../../../src/limiter/stores/redis/redis-store.js'
import { atEnd } from '../../support/at-end.js'
import { long } from '../../support/long.js'
import { clusterMissing, startCluster } from '../../support/redis-cluster.js'

const NOW_MS = 1_705_161_600_000
const POLICY = { algorithm: 'fixed_window', limit: 100, periodMs: 60_000 } as const

test(
  'the checks of a batch reach each node of a cluster in one write, and a single one its own node only',
  long(clusterMissing),
  async (t) => {
    const { url, stop } = await startCluster()
    atEnd(t, stop)
    const redis = new Cluster([url])
    atEnd(t, () => redis.disconnect())
    const store = new RedisStore({ redis })
    const checks = Array.from({ length: 60 }, (_, client) => ({ key: `client-${client}`, policy: POLICY, cost: 1 }))
    // A node connects, and learns the script, when it is first asked.
    await store.check(checks, NOW_MS)
    const countWrites = redis.nodes('master').map(({ stream }) => {
      assert.ok(isSocket(stream))
      const write = t.mock.method(stream, '_write')
      const writeMany = t.mock.method(stream, '_writev')
      return () => write.mock.callCount() + writeMany.mock.callCount()
    })
    const writes = () => countWrites.map((count) => count())

    assert.equal((await store.check(checks, NOW_MS)).length, checks.length)
    assert.deepEqual(writes(), [1, 1, 1])
    await store.check(checks.slice(0, 1), NOW_MS)
    assert.deepEqual(writes().toSorted(), [1, 1, 2])
  },
)

test(
  'a client of a cluster that names no nodes and no connections is asked all the same',
  long(clusterMissing),
  async (t) => {
    const { url, stop } = await startCluster()
    atEnd(t, stop)
    const cluster = new Cluster([url])
    atEnd(t, () => cluster.disconnect())
    const hidden = new Set<string | symbol>(['nodes', 'stream'])
    const redis = new Proxy(cluster, {
      get(target, name) {
        const value: unknown = hidden.has(name) ? 'none' : Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    const store = new RedisStore({ redis })
    const checks = ['a', 'b', 'c'].map((key) => ({ key, policy: POLICY, cost: 1 }))
    const decisions = await store.check(checks, NOW_MS)
    assert.deepEqual(
      decisions.map(({ remaining }) => remaining),
      [99, 99, 99],
    )
  },
)

/** A socket, whose "_writev" the types of Node.js take for absent. */
function isSocket(stream: unknown): stream is { _write(): void; _writev(): void } {
  return stream instanceof Socket
}
