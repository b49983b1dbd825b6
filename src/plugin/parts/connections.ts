/** The connections of the plugin, and the logs of what fails. */
import type { FastifyInstance } from 'fastify'
import type { Components } from '../../ground/components.js'
import { createOutageLog } from '../../ground/outage-log.js'
import { channelsOn } from '../../operations/alerts/channels/channels.js'
import { openDatabase } from '../client/client.js'
import type { Settings } from '../settings/resolve.js'

/** What every part gets. */
export interface Host {
  readonly app: FastifyInstance
  readonly settings: Settings
  readonly components: Components
}

export interface Connections extends Awaited<ReturnType<typeof openConnections>> {}

export async function openConnections({ app, settings, components }: Host) {
  const { enabled, clock, middleware, alerts } = settings
  const log = createOutageLog(app.log, clock)
  // Modules that few servers use are loaded by those that do.
  const metrics =
    enabled && settings.metrics
      ? await (await import('../../operations/metrics/metrics.js')).openMetrics(settings.metrics)
      : undefined
  // The first alert would be too late to learn that a package is not installed.
  if (enabled) await Promise.all(channelsOn(alerts).map((channel) => channel.prepare?.(alerts)))
  const geo =
    enabled && settings.geo
      ? await (await import('../../operations/geo/geo-files.js')).openGeoFiles(settings.geo, log)
      : undefined
  if (geo) components.open('files about addresses', geo)
  const opened = components.connect('database', openDatabase(settings))
  const { database } = opened
  if (enabled) database.sources = { lists: settings.lists.named, geo }
  return {
    clock,
    database,
    opened,
    metrics,
    log,
    // Another server has outages of its own.
    storeLog: middleware.backend === 'database' ? log : createOutageLog(app.log, clock),
    eventsLog: database.log === database ? log : createOutageLog(app.log, clock),
  }
}
