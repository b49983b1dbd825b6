/** The same tests for every store that processes share. */
import { after, describe } from 'node:test'
import { forEachDatabase } from './databases.js'
import { openTestRedis, redisMissing } from './redis.js'
import { clusterMissing, startCluster } from './redis-cluster.js'
import type { StoreLocation } from './store-location.js'

export interface TestStore {
  readonly location: StoreLocation
  /** Removes all counters, if other tests would see them. */
  close(): Promise<void>
}

type DeclareTests = (name: string, open: () => Promise<TestStore>) => void

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
      return { location: { redis: url, namespace }, close }
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

interface SharedLocation {
  readonly shared: { readonly database: string; readonly schema: string } | { readonly redis: string }
  close(): Promise<void>
}

/** Declares tests with a namespace each in one location. The first of them opens it, which takes longer than most tests. */
function declareSharing(declareTests: DeclareTests, name: string, open: () => Promise<SharedLocation>): void {
  let opening: Promise<SharedLocation> | undefined
  let namespaces = 0
  after(async () => (await opening)?.close())
  declareTests(name, async () => {
    opening ??= open()
    const { shared } = await opening
    return { location: { ...shared, namespace: `test${namespaces++}` }, close: async () => undefined }
  })
}
