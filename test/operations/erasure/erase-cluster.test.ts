/** What is stored of one client in a Redis Cluster is deleted, on whichever server it is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { atEnd } from '../../support/at-end.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { eventually } from '../../support/eventually.js'
import { long } from '../../support/long.js'
import { clusterMissing, startCluster } from '../../support/redis-cluster.js'
import { ratelimit } from '../../support/scripts.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.70'
const PATHS = Array.from({ length: 20 }, (_, number) => `/section-${number}/`)
const RATES = Object.fromEntries(PATHS.map((path) => [path, '1/d']))

test(
  'the counters of a client are deleted from every server of a cluster, and by a dry run from none',
  long(clusterMissing),
  async (t) => {
    const cluster = await startCluster()
    atEnd(t, cluster.stop)
    const redis = cluster.url
    const database = await openDatabase(t, 'sqlite')
    const middleware = { backend: 'redis', defaultRate: '1/d', rateLimits: RATES } as const
    const start = (namespace: string) => startApp(t, { database, plugin: { redis, namespace, middleware } })
    const apps = [await start('shop'), await start('other')] as const
    for (const { statuses } of apps) {
      for (const path of PATHS) for (const from of [ALICE, BOB]) await statuses(1, path, { from })
    }
    const [{ statuses }] = apps
    const [limited = '/'] = PATHS
    assert.deepEqual(await statuses(2, limited, { from: ALICE }), [429, 429])

    const first = new Redis(redis.replace(/\?.*/, ''))
    const ports = [...String(await first.cluster('NODES')).matchAll(/:(\d+)@/g)].map(([, port]) => Number(port))
    first.disconnect()
    const servers = ports.map((port) => new Redis(port, '127.0.0.1'))
    atEnd(t, () => servers.map((server) => server.disconnect()))
    const countsOf = (address: string, namespace = 'shop') =>
      Promise.all(servers.map(async (server) => (await server.keys(`fsr:${namespace}:*:${address}}`)).length))
    const before = await countsOf(ALICE)
    assert.equal(sum(before), PATHS.length)
    assert.ok(
      before.every((count) => count > 0),
      'every server has some',
    )

    const env = { RATELIMIT_DATABASE_URL: database.url, RATELIMIT_REDIS_URL: redis }
    const erase = async (...more: string[]) => {
      const { status, stdout, stderr } = await ratelimit(
        ['erase', '--client', ALICE, '--namespace', 'shop', '--json', ...more],
        { env },
      )
      assert.deepEqual([status, stderr], [0, ''])
      return JSON.parse(stdout).redis_counters
    }
    assert.equal(await erase('--dry-run'), PATHS.length)
    assert.deepEqual(await countsOf(ALICE), before)
    assert.equal(await erase(), PATHS.length)
    assert.deepEqual(await countsOf(ALICE), [0, 0, 0])
    assert.deepEqual([sum(await countsOf(BOB)), sum(await countsOf(ALICE, 'other'))], [PATHS.length, PATHS.length])
    assert.equal(await erase(), 0)
    await eventually('the server forgets whom it has refused', async () => {
      const [answered] = await statuses(1, limited, { from: ALICE })
      return answered === 200
    })
  },
)

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
