/** What an app tells about itself when metrics are collected. */
import { SECOND_MS } from './clock.js'
import type { EventLog } from './events/event-log.js'
import type { Limiter } from './limiter/limiter.js'
import type { AppReadings } from './metrics/shared-readings.js'
import type { Snapshots } from './parts.js'
import type { Settings } from './settings/resolve.js'

interface ReadParts {
  readonly limiter: Limiter
  readonly events: EventLog
  readonly snapshots: Snapshots
}

/** Without events, or rules, there are no figures of them. */
export function createReadings(settings: Settings, { limiter, events, snapshots }: ReadParts): AppReadings {
  return {
    storeErrors: () => limiter.storeErrors,
    fallbackActive: () => Number(limiter.storeIsDown),
    ...(settings.logEvents === false ? {} : readingsOfEvents(events)),
    ...(settings.useDynamicRules ? readingsOfRules(settings, snapshots) : {}),
  }
}

function readingsOfEvents(events: EventLog): AppReadings {
  return {
    eventsWritten: () => events.stats().written,
    eventsDropped: () => events.stats().dropped,
    eventsBuffered: () => events.stats().buffered,
  }
}

function readingsOfRules({ clock }: Settings, snapshots: Snapshots): AppReadings {
  return {
    rulesActive: () => snapshots.lastGood().rules.rules.length,
    rulesAgeSeconds: () => {
      const { readAtMs } = snapshots
      // The clock may have been set back.
      return readAtMs === undefined ? undefined : Math.max(0, clock.now() - readAtMs) / SECOND_MS
    },
    overridesActive: () => snapshots.lastGood().overrides.size,
  }
}
