/** The same tests for every store that processes share. */
import { after, describe } from 'node:test'
import { forEachDatabase } from './databases.js'
import { openTestRedis, redisMissing } from './redis.js'
import { clusterMissing, startCluster, type TestCluster } from './redis-cluster.js'
import type { StorePlace } from './store-place.js'

export interface TestPlace {
  readonly place: StorePlace
  /** Removes all counters, if other tests would see them. */
  close(): Promise<void>
}

type DeclareTests = (name: string, open: () => Promise<TestPlace>) => void

/** Declares tests for the databases and for one Redis. */
export function forEachStore(declareTests: DeclareTests): void {
  forEachDatabase((provider, open) => {
    // One database for all, since a new one takes longer than most tests.
    let opening: ReturnType<typeof open> | undefined
    let places = 0
    after(async () => (await opening)?.close())
    declareTests(provider, async () => {
      opening ??= open()
      const { url, schema } = await opening
      return { place: { database: url, schema, namespace: `place${places++}` }, close: async () => undefined }
    })
  })
  describe('on Redis', { skip: redisMissing }, () =>
    declareTests('Redis', async () => {
      const { url, namespace, close } = openTestRedis()
      return { place: { redis: url, namespace }, close }
    }),
  )
}

/** Declares tests for a cluster, which is started by the first of them, and stopped after the last. */
export function onRedisCluster(declareTests: DeclareTests): void {
  describe('on Redis Cluster', { skip: clusterMissing }, () => {
    let starting: Promise<TestCluster> | undefined
    let places = 0
    after(async () => (await starting)?.stop())
    declareTests('Redis Cluster', async () => {
      starting ??= startCluster()
      const { url } = await starting
      return { place: { redis: url, namespace: `place${places++}` }, close: async () => undefined }
    })
  })
}
