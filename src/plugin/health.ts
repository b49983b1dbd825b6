/** The probes of an app's health: only for the parts that it uses. */

import type { Database } from '../database/database.js'
import { countOf } from '../ground/number-text.js'
import { type Clock, MINUTE_MS } from '../ground/time/clock.js'
import type { Limiter } from '../limiter/limiter.js'
import { RedisStore } from '../limiter/stores/redis/redis-store.js'
import type { Store } from '../limiter/stores/store.js'
import type { EventLogReadings } from '../log/event-log-state.js'
import { channelProbes } from '../operations/alerts/channels/channels.js'
import { type Health, type Probe, probeHealth } from '../operations/health/health.js'
import {
  chargesProbe,
  databaseProbe,
  eventLogProbe,
  geoProbe,
  listsProbe,
  redisProbe,
  scheduleProbe,
} from '../operations/health/probes.js'
import type { ListKeeper } from '../operations/lists/list-keeper.js'
import { JobLeases } from '../operations/schedule/job-leases.js'
import { allRules } from '../rules/rule-groups.js'
import type { CurrentSnapshot } from '../rules/snapshot/current-snapshot.js'
import { jobNames } from './parts/schedule.js'
import { databasesInUse } from './settings/databases-in-use.js'
import type { Settings } from './settings/resolve.js'

/** Health is asked for every few seconds, from several places: a server of messages would take that for an attack. */
const CHANNEL_INTERVAL_MS = MINUTE_MS

interface HealthComponents {
  readonly settings: Settings
  readonly database: Database
  readonly store: Store
  readonly current: CurrentSnapshot
  readonly limiter: Limiter
  readonly events: EventLogReadings
  /** Undefined where the app has none. */
  readonly lists: Pick<ListKeeper, 'problems'> | undefined
  /** Undefined where the app keeps none. */
  readonly usage: EventLogReadings | undefined
}

/** Creates the function that probes an app's health. Calls that come during a probe share its answer. */
export function createHealth(components: HealthComponents): () => Promise<Health> {
  const { settings, database, store, limiter, events, usage, lists } = components
  const { clock, logEvents, schedule, useDynamicRules, alerts } = settings
  const inUse = databasesInUse(settings, database)
  const counting = settings.middleware.backend === 'database' ? store : undefined
  const probes = !settings.enabled
    ? {}
    : {
        ...(inUse.includes(database) ? { database: databaseProbe(database, clock, counting) } : {}),
        ...(store instanceof RedisStore ? { redis: redisProbe(store, clock) } : {}),
        ...(useDynamicRules ? { rules: cachedRulesProbe(components, clock) } : {}),
        ...(database.log !== database && inUse.includes(database.log)
          ? { log: databaseProbe(database.log, clock) }
          : {}),
        ...(logEvents === false ? {} : { events: eventLogProbe(events) }),
        ...(usage === undefined ? {} : { usage: eventLogProbe(usage) }),
        ...(settings.middleware.backend === 'memory' ? {} : { charges: chargesProbe(limiter) }),
        ...(lists === undefined ? {} : { lists: listsProbe(lists, settings.lists.named) }),
        ...(database.sources?.geo === undefined ? {} : { geo: geoProbe(database.sources.geo) }),
        ...Object.fromEntries(channelProbes(alerts).map(([check, probe]) => [check, seldom(probe, clock)])),
        ...(schedule === undefined
          ? {}
          : { schedule: scheduleProbe(new JobLeases(database), clock, jobNames(settings)) }),
      }
  let underWay: Promise<Health> | undefined
  return () => {
    underWay ??= probeHealth(probes).finally(() => {
      underWay = undefined
    })
    return underWay
  }
}

/** Probes the rules in force, which it reads no more often than requests do. */
function cachedRulesProbe({ current }: HealthComponents, clock: Clock): Probe {
  return async () => {
    const rules = allRules(await current.at(clock.now()))
    const count = countOf(rules.length, 'active rule')
    if (current.isFailing) throw new Error(`the rules cannot be read: ${count} that were read before`)
    return count
  }
}

/** Repeats a probe's last answer, unless that is older than `CHANNEL_INTERVAL_MS`. */
function seldom(probe: Probe, clock: Clock): Probe {
  let answered: { readonly atMs: number; readonly answer: Promise<string> } | undefined
  return () => {
    const nowMs = clock.now()
    if (answered === undefined || Math.abs(nowMs - answered.atMs) >= CHANNEL_INTERVAL_MS) {
      answered = { atMs: nowMs, answer: (async () => probe())() }
    }
    return answered.answer
  }
}
