import type { Database } from '../../database/database.js'
import { Components } from '../../ground/components.js'
import { createOutageLog, type OutageLog } from '../../ground/outage-log.js'
import { type ClientLimit, type ClientLimitOptions, createClientLimit } from './client-limit.js'
import { openCounting } from './counting.js'
import { numberPermits, PermitsOfCode } from './held-permits.js'
import { type RateLimiterOptions, type RateLimiterSettings, resolveLimiter } from './limiter-settings.js'
import { createNamedClient } from './named-client.js'
import { wholeMs } from './store-limiter.js'

/** What `createLimiter` answers. */
export interface RateLimiter {
  /**
   * Creates a limit. Few objects that live long are cheapest: each remembers its clients.
   *
   * @throws InvalidSettingError for invalid or unknown options
   */
  limit(options: ClientLimitOptions): ClientLimit
  /** Gives permits and shares back, sends owed charges, and ends what was opened here. Takes three seconds at most. */
  close(): Promise<void>
}

/**
 * Creates a limiter without an app, for workers, queues, sockets and tools: with the stores of the plugin, and with what the
 * plugin does while a store fails.
 *
 * @throws InvalidSettingError for invalid options and environment variables, and for a file that cannot be opened. A server
 * that is away is logged, and `onStoreError` decides
 */
export async function createLimiter(options: RateLimiterOptions = {}): Promise<RateLimiter> {
  const settings = resolveLimiter(options, process.env)
  const log = createOutageLog(settings.log, settings.clock)
  const components = new Components(settings.log)
  try {
    const database = () => openDatabase(settings, components, log)
    const { store, limiter } = await openCounting(settings, { components, log, database })
    const nowMs = wholeMs(settings.clock)
    const permits = components.open('permits', new PermitsOfCode(limiter, nowMs))
    await components.prepare()
    await components.start()
    let closing: Promise<void> | undefined
    const now = () => {
      if (closing !== undefined) throw new Error('The limiter is closed')
      return nowMs()
    }
    const dependencies = {
      limiter,
      permits,
      nextPermit: numberPermits(),
      now,
      toClient: createNamedClient(settings),
      store,
    }
    return {
      limit: (limit) => createClientLimit(limit, dependencies),
      close: () => {
        closing ??= components.close()
        return closing
      },
    }
  } catch (error) {
    await components.close()
    throw error
  }
}

/** Opens the database of the counters, whose expired ones are deleted in the background. */
async function openDatabase(
  { database: option, schema, clock }: RateLimiterSettings,
  components: Components,
  log: OutageLog,
): Promise<Database> {
  const { createDatabaseStart, openDatabase, StateSweep, stateDeletions } = await import('./database-parts.js')
  const database = openDatabase(option, schema)
  if (typeof option !== 'object') components.connect('database', { close: () => database.close() })
  components.open('database at start', createDatabaseStart(database, log))
  components.open('expired counters', new StateSweep({ deletions: stateDeletions(database), clock, log }))
  return database
}
