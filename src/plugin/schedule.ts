/** The jobs of the scheduler. */

import type { OutageLog } from '../ground/outage-log.js'
import { cleanupState } from '../limiter/stores/sql/state-cleanup.js'
import { cleanupOldEvents } from '../log/rollups/retention.js'
import type { IncidentAlertResult } from '../operations/alerts/incidents.js'
import { JobLeases } from '../operations/schedule/job-leases.js'
import { type JobName, sharedJobName } from '../operations/schedule/schedule-options.js'
import { type Job, Scheduler } from '../operations/schedule/scheduler.js'
import type { Analytics } from './analytics-interface.js'
import type { OpenDatabase } from './client/client.js'
import type { Settings } from './settings/resolve.js'

export function createScheduler(
  schedule: NonNullable<Settings['schedule']>,
  settings: Settings,
  { database }: OpenDatabase,
  analytics: Pick<Analytics, 'sendIncidentAlerts'>,
  log: Pick<OutageLog, 'error'>,
): Scheduler {
  const { clock } = settings
  const { olderThanDays } = schedule
  const work: Record<JobName, Job['run']> = {
    alerts: async (signal) => failuresFor(await analytics.sendIncidentAlerts({ signal })),
    cleanup: async (signal) => {
      await cleanupState(database, clock, { signal })
      return null
    },
    pruneEvents: async (signal) => {
      await cleanupOldEvents(database, clock, { olderThanDays, signal })
      return null
    },
  }
  const jobs = schedule.jobs.map(({ name, nextRun }) => ({
    name: sharedJobName(name, settings.namespace),
    nextRun,
    run: work[name],
  }))
  return new Scheduler({ jobs, leases: new JobLeases(database), clock, log })
}

/** Returns the names of this app's jobs in the database. */
export function jobNames(settings: Settings): string[] {
  return (settings.schedule?.jobs ?? []).map(({ name }) => sharedJobName(name, settings.namespace))
}

function failuresFor({ channels }: IncidentAlertResult): string | null {
  const failures = Object.entries(channels).flatMap(([name, { error }]) =>
    error === undefined ? [] : `${name} failed (${error})`,
  )
  return failures.length === 0 ? null : failures.join(', ')
}
