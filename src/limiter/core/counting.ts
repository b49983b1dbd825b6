/** Opens what counts, for the plugin and for `createLimiter`: what one backend needs is loaded where it is used. */
import type { Database } from '../../database/database.js'
import type { RedisClient } from '../../database/redis-client.js'
import type { Component, Components } from '../../ground/components.js'
import { errorMessage } from '../../ground/errors.js'
import type { OutageLog } from '../../ground/outage-log.js'
import type { Limiter } from '../limiter.js'
import { MemoryStore } from '../stores/memory/memory-store.js'
import type { Store } from '../stores/store.js'
import { createStoreLimiter, type StoreLimiterSettings } from './store-limiter.js'

export interface CountingSettings extends StoreLimiterSettings {
  readonly namespace: string | undefined
  readonly redis: string | RedisClient | undefined
}

interface Dependencies {
  readonly components: Components
  readonly log: OutageLog
  /** Opens the database, where the counters are in it. */
  database(): Database | Promise<Database>
  /** Returns whether requests may have several limits now. */
  haveGroups?(): boolean
}

/** What counts: the store, and the limiter around it. */
export interface Counting {
  readonly store: Store
  readonly limiter: Limiter
}

/** Opens the store of the settings as components, and the limiter around it. A store of the host's own stays open. */
export async function openCounting(
  settings: CountingSettings,
  { components, log, database, haveGroups }: Dependencies,
): Promise<Counting> {
  const { store, prepare } = await openStore(settings, database, log)
  const close = () => (store === settings.backend ? undefined : store.close())
  components.connect('store', { ...(prepare && { prepare }), close })
  const limiter = components.open('limiter', createStoreLimiter(settings, store, log, haveGroups))
  return { store, limiter }
}

async function openStore(
  { backend, namespace, redis, storeTimeoutMs }: CountingSettings,
  database: Dependencies['database'],
  log: OutageLog,
): Promise<Pick<Component, 'prepare'> & { readonly store: Store }> {
  if (typeof backend === 'object') return { store: backend }
  if (backend === 'memory') return { store: new MemoryStore() }
  if (backend === 'redis' && redis !== undefined) {
    const { RedisStore } = await import('../stores/redis/redis-store.js')
    const store = new RedisStore({ redis, namespace })
    return { store, prepare: () => prepareRedis(store, log) }
  }
  // A further backend is opened above.
  backend satisfies 'database' | 'redis'
  const [{ DatabaseStore }, opened] = await Promise.all([import('../stores/sql/database-store.js'), database()])
  return { store: new DatabaseStore({ database: opened, namespace }, Math.ceil(storeTimeoutMs / 2)) }
}

/** Loads the client; a server that is away is logged. */
async function prepareRedis(
  store: { load(): Promise<unknown>; ready(): Promise<void> },
  log: OutageLog,
): Promise<void> {
  await store.load()
  store.ready().catch((error: unknown) => {
    const message = `Rate limit Redis: ${errorMessage(error)}: onStoreError decides until it can be reached`
    log.error({ err: error }, message)
  })
}
