/** What an app looks at to tell how it does: only what it uses. */

import type { OpenDatabase } from './client.js'
import { type Clock, MINUTE_MS } from './clock.js'
import type { EventLog } from './events/event-log.js'
import { checkHealth, type Health, type Look } from './health/health.js'
import { databaseLook, eventLogLook, mailLook, redisLook, scheduleLook } from './health/looks.js'
import { jobNames } from './parts-schedule.js'
import type { CurrentSnapshot } from './rules/current-snapshot.js'
import { JobLeases } from './schedule/job-leases.js'
import type { Settings } from './settings/resolve.js'
import { RedisStore } from './stores/redis-store.js'
import type { Store } from './stores/store.js'

/** Probes come every few seconds, from several places: a mail server would take that for an attack. */
const MAIL_INTERVAL_MS = MINUTE_MS

interface HealthParts {
  readonly opened: OpenDatabase
  readonly store: Store
  readonly current: CurrentSnapshot
  readonly events: EventLog
}

/** Probes that come while one is under way share its answer. */
export function createHealth(settings: Settings, parts: HealthParts): () => Promise<Health> {
  const { clock, logEvents, schedule, useDynamicRules, alerts } = settings
  const { opened, store, events } = parts
  const counting = settings.middleware.backend === 'database' ? store : undefined
  const looks = !settings.enabled
    ? {}
    : {
        ...(needsDatabase(settings) ? { database: databaseLook(opened.database, clock, counting) } : {}),
        ...(store instanceof RedisStore ? { redis: redisLook(store, clock) } : {}),
        ...(useDynamicRules ? { rules: cachedRulesLook(parts, clock) } : {}),
        ...(logEvents === false ? {} : { events: eventLogLook(events) }),
        ...(alerts.emails.length === 0 ? {} : { mail: seldom(mailLook(alerts), clock) }),
        ...(schedule === undefined
          ? {}
          : { schedule: scheduleLook(new JobLeases(opened.database), clock, jobNames(settings)) }),
      }
  let underWay: Promise<Health> | undefined
  return () => {
    underWay ??= checkHealth(looks).finally(() => {
      underWay = undefined
    })
    return underWay
  }
}

/** Whether anything is kept in the database. */
export function needsDatabase({ middleware, logEvents, useDynamicRules, schedule }: Settings): boolean {
  return middleware.backend === 'database' || logEvents !== false || useDynamicRules || schedule !== undefined
}

/** The rules that requests are decided by, which are read no more often than for these. */
function cachedRulesLook({ current }: HealthParts, clock: Clock): Look {
  return async () => {
    const { rules } = (await current.at(clock.now())).rules
    const count = `${rules.length} active rule(s)`
    if (current.isFailing) throw new Error(`the rules cannot be read: ${count} that were read before`)
    return count
  }
}

/** Answers what was answered before, unless that is long ago. */
function seldom(look: Look, clock: Clock): Look {
  let answered: { readonly atMs: number; readonly answer: Promise<string> } | undefined
  return () => {
    const nowMs = clock.now()
    if (answered === undefined || Math.abs(nowMs - answered.atMs) >= MAIL_INTERVAL_MS) {
      answered = { atMs: nowMs, answer: (async () => look())() }
    }
    return answered.answer
  }
}
