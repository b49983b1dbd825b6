/** The readings of an app for its metrics. */

import { setTimeout as delay } from 'node:timers/promises'
import type { Component } from '../../ground/components.js'
import { SECOND_MS } from '../../ground/time/clock.js'
import type { ConditionReports } from '../../http/rule-choice.js'
import type { Limiter } from '../../limiter/limiter.js'
import type { EventLogReadings } from '../../log/event-log-state.js'
import type { Metrics } from '../../operations/metrics/figures.js'
import type { AppReadings } from '../../operations/metrics/shared-readings.js'
import { rulesInForce } from '../../rules/rule-groups.js'
import type { CurrentSnapshot } from '../../rules/snapshot/current-snapshot.js'
import type { Settings } from '../settings/resolve.js'
import type { ReportParts } from './reports.js'

interface ReadParts extends ReportParts {
  readonly settings: Settings
  readonly limiter: Limiter
  readonly events: EventLogReadings
  /** Undefined where the app keeps none. */
  readonly usage: EventLogReadings | undefined
  readonly current: CurrentSnapshot
  readonly conditions: ConditionReports
}

/** Adds the readings of an app to its metrics until the app closes. */
export function openReadings(metrics: Metrics, parts: ReadParts): Component {
  const count = parts.settings.logEvents === false ? undefined : createIncidentCount(parts)
  return {
    start: () => count?.start(),
    close: metrics.join(createReadings(parts, count)),
  }
}

/** Creates the readings; those of events and of rules only where the app uses them. */
function createReadings(
  { settings, limiter, events, usage, current, conditions }: ReadParts,
  count: IncidentCount | undefined,
): AppReadings {
  return {
    storeErrors: () => limiter.storeErrors,
    fallbackActive: () => Number(limiter.storeIsDown),
    chargesOwed: () => limiter.owedCharges,
    chargesLost: () => limiter.lostCharges,
    refundsOwed: () => limiter.owedRefunds,
    refundsLost: () => limiter.lostRefunds,
    ...(usage === undefined ? {} : { usageDropped: () => usage.stats().dropped }),
    ...(count === undefined ? {} : { ...createEventReadings(events), incidentsOpen: count.read }),
    ...(settings.useDynamicRules ? createRuleReadings(settings, current, conditions) : {}),
  }
}

function createEventReadings(events: EventLogReadings): AppReadings {
  return {
    eventsWritten: () => events.stats().written,
    eventsDropped: () => events.stats().dropped,
    eventsBuffered: () => events.stats().buffered,
    eventsSpooled: () => events.stats().spooled,
  }
}

/** The time for which a number of incidents is reported: metrics may be collected by several servers, every second. */
const RECOUNT_MS = 30 * SECOND_MS
/** The longest that the start of an app waits for the first number. */
const FIRST_COUNT_MS = SECOND_MS

/** The number of open incidents, counted beside the collection of metrics. */
interface IncidentCount {
  /** Counts for the first time, so that the first collection has the number. */
  start(): Promise<void>
  /** Returns the last number, without a wait, and starts a count that is due; undefined where it is not known. */
  read(): number | undefined
}

function createIncidentCount({ settings: { clock }, reports }: ReadParts): IncidentCount {
  let open: number | undefined
  let countedMs = Number.NEGATIVE_INFINITY
  let isCounting = false
  const count = async () => {
    countedMs = clock.now()
    isCounting = true
    try {
      open = (await reports.getIncidents({ days: 1 / 24 })).filter(({ state }) => state === 'open').length
    } catch {
      // The health check tells why the database does not answer.
      open = undefined
    }
    isCounting = false
  }
  return {
    start: () => Promise.race([count(), delay(FIRST_COUNT_MS, undefined, { ref: false })]),
    read() {
      if (!isCounting && Math.abs(clock.now() - countedMs) >= RECOUNT_MS) void count()
      return open
    },
  }
}

function createRuleReadings({ clock }: Settings, current: CurrentSnapshot, conditions: ConditionReports): AppReadings {
  return {
    conditionFailures: () => conditions.failures,
    rulesActive: () => rulesInForce(current.lastGood(), clock.now()).length,
    rulesAgeSeconds: () => {
      const { seenAtMs } = current
      return seenAtMs === undefined ? undefined : Math.max(0, clock.now() - seenAtMs) / SECOND_MS
    },
    overridesActive: () => current.lastGood().overrides.size,
  }
}
