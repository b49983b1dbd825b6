/** The list of the plugin's parts, in the order in which they are opened and started; they close in reverse. */
import type { FastifyInstance } from 'fastify'
import { PartList } from '../ground/components.js'
import { createSharedOutageLog } from '../ground/outage-log.js'
import { coverageFor } from '../reports/report.js'
import { analyticsFor } from './analytics.js'
import { createHook } from './hook/hook.js'
import { type Connections, type Host, openConnections } from './parts/connections.js'
import { openCounters } from './parts/counting.js'
import { openLimitsInForce } from './parts/limits-in-force.js'
import { openLog } from './parts/log.js'
import { openOperations } from './parts/operations.js'
import { openRequests } from './parts/requests.js'
import { openRules } from './parts/rules.js'
import type { StaffMounts } from './staff-mounts.js'

/** What the parts of the plugin have made. Each function that uses some of it names what it needs. */
export interface Parts extends Awaited<ReturnType<typeof openParts>> {}

export function openParts(host: Host) {
  return new PartList(async () => ({ ...host }))
    .with(openConnections)
    .with(openReports)
    .with(openRules)
    .with(openCounters)
    .with(openLog)
    .with(openRequests)
    .with(openLimitsInForce)
    .with(openOperations)
    .with(openHook)
    .with(openStaff)
    .open()
}

function openReports({ settings, database, clock, log }: Host & Connections) {
  const { alerts, logEvents, privacy } = settings
  return { reports: analyticsFor(database, clock, { settings: alerts, log }, coverageFor(logEvents), privacy) }
}

function openHook(parts: Parameters<typeof createHook>[0]) {
  const hook = createHook(parts)
  // Opened after the event log, so that it is closed before.
  if (hook.postponed) parts.components.open('last decisions', hook.postponed)
  return { hook }
}

/** Opens what only the staff routes need. */
function openStaff({ log, eventsLog }: Connections) {
  const mounts: StaffMounts = { dashboards: [], panels: [], apis: [] }
  return { mounts, staffLog: createSharedOutageLog(log, eventsLog) }
}

const parts = new WeakMap<object, Parts>()

/** @param decoration the app's decoration `smartRateLimit` */
export function attachParts(decoration: object, attached: Parts): void {
  parts.set(decoration, attached)
}

/** An app of any server, with the decoration of `rateLimitPlugin`. */
export type LimitedApp = Pick<FastifyInstance, 'hasDecorator' | 'smartRateLimit'>

/** @throws Error when `rateLimitPlugin` is not registered on the app, or on one of its parents */
export function partsFor(app: LimitedApp): Parts {
  const attached = app.hasDecorator('smartRateLimit') ? parts.get(app.smartRateLimit) : undefined
  if (attached === undefined) throw new Error('Register rateLimitPlugin before, on the same app')
  return attached
}
