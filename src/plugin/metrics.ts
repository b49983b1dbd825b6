/** The readings of an app for its metrics. */

import { SECOND_MS } from '../ground/time/clock.js'
import type { ConditionReports } from '../http/rule-choice.js'
import type { Limiter } from '../limiter/limiter.js'
import type { EventLogReadings } from '../log/event-log-state.js'
import type { Metrics } from '../operations/metrics/figures.js'
import type { AppReadings } from '../operations/metrics/shared-readings.js'
import type { Incident } from '../reports/incidents/incident.js'
import { rulesInForce } from '../rules/rule-groups.js'
import type { CurrentSnapshot } from '../rules/snapshot/current-snapshot.js'
import type { Component } from './components.js'
import type { Settings } from './settings/resolve.js'

interface ReadComponents {
  readonly limiter: Limiter
  readonly events: EventLogReadings
  readonly current: CurrentSnapshot
  readonly conditions: ConditionReports
  readonly incidents: () => Promise<readonly Incident[]>
}

/** Adds the readings of an app to its metrics until the app closes. */
export function openReadings(metrics: Metrics, settings: Settings, read: ReadComponents): Component {
  return { close: metrics.join(createReadings(settings, read)) }
}

/** Creates the readings; those of events and of rules only where the app uses them. */
function createReadings(
  settings: Settings,
  { limiter, events, current, conditions, incidents }: ReadComponents,
): AppReadings {
  return {
    storeErrors: () => limiter.storeErrors,
    fallbackActive: () => Number(limiter.storeIsDown),
    ...(settings.logEvents === false
      ? {}
      : { ...createEventReadings(events), ...createIncidentReading(settings, incidents) }),
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

/** Creates the number of open incidents. Collecting metrics waits for nothing: it starts a count that is due. */
function createIncidentReading({ clock }: Settings, incidents: ReadComponents['incidents']): AppReadings {
  let open: number | undefined
  let countedMs = Number.NEGATIVE_INFINITY
  const count = async () => {
    try {
      open = (await incidents()).filter(({ state }) => state === 'open').length
    } catch {
      // The health check tells why the database does not answer.
      open = undefined
    }
  }
  return {
    incidentsOpen: () => {
      const nowMs = clock.now()
      if (Math.abs(nowMs - countedMs) >= RECOUNT_MS) {
        countedMs = nowMs
        void count()
      }
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
