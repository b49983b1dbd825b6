/** The same tests for every store that processes share. */
import { after, describe } from 'node:test'
import { forEachDatabase } from './databases.js'
import { openTestRedis, redisMissing } from './redis.js'
import { clusterMissing, startCluster } from './redis-cluster.js'
import type { StorePlace } from './store-place.js'

export interface TestPlace {
  readonly place: StorePlace
  /** Removes all counters, if other tests would see them. */
  close(): Promise<void>
}

type DeclareTests = (name: string, open: () => Promise<TestPlace>) => void

/** Declares tests for the databases and for one Redis. */
export function forEachStore(declareTests: DeclareTests): void {
  forEachDatabase((provider, open) =>
    declareSharing(declareTests, provider, async () => {
      const { url, schema, close } = await open()
      return { shared: { database: url, schema }, close }
    }),
  )
  describe('on Redis', { skip: redisMissing }, () =>
    declareTests('Redis', async () => {
      const { url, namespace, close } = openTestRedis()
      return { place: { redis: url, namespace }, close }
    }),
  )
}

/** Declares tests for a cluster. */
export function onRedisCluster(declareTests: DeclareTests): void {
  describe('on Redis Cluster', { skip: clusterMissing }, () =>
    declareSharing(declareTests, 'Redis Cluster', async () => {
      const { url, stop } = await startCluster()
      return { shared: { redis: url }, close: stop }
    }),
  )
}

interface SharedPlace {
  readonly shared: { readonly database: string; readonly schema: string } | { readonly redis: string }
  close(): Promise<void>
}

/** Declares tests with a namespace each in one place, which takes longer to open than most tests: by the first of them. */
function declareSharing(declareTests: DeclareTests, name: string, open: () => Promise<SharedPlace>): void {
  let opening: Promise<SharedPlace> | undefined
  let places = 0
  after(async () => (await opening)?.close())
  declareTests(name, async () => {
    opening ??= open()
    const { shared } = await opening
    return { place: { ...shared, namespace: `place${places++}` }, close: async () => undefined }
  })
}
