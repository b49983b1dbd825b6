/** The list of the plugin's parts, in the order in which they are opened and started; they close in reverse. */
import { createSharedOutageLog } from '../ground/outage-log.js'
import { coverageFor } from '../reports/report.js'
import { analyticsFor } from './analytics.js'
import { createHook } from './hook/hook.js'
import type { HookComponents } from './hook/hook-components.js'
import { PartList } from './part-list.js'
import { type Connections, type Host, openConnections } from './parts/connections.js'
import { openCounters } from './parts/counting.js'
import { createLimitsInForce } from './parts/limits-in-force.js'
import { openLog } from './parts/log.js'
import { openOperations } from './parts/operations.js'
import { openCharges, openRequests } from './parts/requests.js'
import { openRules } from './parts/rules.js'
import type { LimitedApp } from './smart-rate-limit.js'
import type { StaffMounts } from './staff-mounts.js'

/** What the parts of the plugin have made. Each function that uses some of it names what it needs. */
export interface Parts extends Awaited<ReturnType<typeof openParts>> {}

export function openParts(host: Host) {
  return new PartList(Promise.resolve({ ...host }))
    .with(openConnections)
    .with(createReportParts)
    .with(openRules)
    .with(openCounters)
    .with(openRequests)
    .with(openLog)
    .with(openCharges)
    .with(createLimitsInForce)
    .with(openOperations)
    .with(openHook)
    .with(createStaffParts)
    .made()
}

function createReportParts({ settings, database, clock, log }: Host & Connections) {
  const { alerts, logEvents, privacy } = settings
  return { reports: analyticsFor(database, clock, { settings: alerts, log }, coverageFor(logEvents), privacy) }
}

function openHook(parts: HookComponents) {
  const hook = createHook(parts)
  // Opened after the event log, so that it is closed before.
  if (hook.postponed) parts.components.open('last decisions', hook.postponed)
  return { hook }
}

/** Creates what only the staff routes need. */
function createStaffParts({ log, eventsLog }: Connections) {
  const mounts: StaffMounts = { dashboards: [], panels: [], apis: [] }
  return { mounts, staffLog: createSharedOutageLog(log, eventsLog) }
}

const attached = new WeakMap<object, Parts>()

/** @param decoration the app's decoration `smartRateLimit` */
export function attachParts(decoration: object, parts: Parts): void {
  attached.set(decoration, parts)
}

/** @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents */
export function pluginParts(app: LimitedApp): Parts {
  const parts = app.hasDecorator('smartRateLimit') ? attached.get(app.smartRateLimit) : undefined
  if (parts === undefined) throw new Error('Register rateLimitPlugin before, on the same app')
  return parts
}
