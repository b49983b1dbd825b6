/** The jobs of the scheduler: the same functions that the commands call. */
import type { AlertResult } from '../alerts/send-alerts.js'
import type { Analytics } from '../analytics/analytics-reports.js'
import type { OpenDatabase } from '../client.js'
import type { OutageLog } from '../outage-log.js'
import { cleanupOldEvents } from '../rollups/retention.js'
import { JobLeases } from '../schedule/job-leases.js'
import type { JobName } from '../schedule/schedule-options.js'
import { type Job, Scheduler } from '../schedule/scheduler.js'
import type { Settings } from '../settings/resolve.js'
import { cleanupState } from '../stores/state-cleanup.js'

export function createScheduler(
  schedule: NonNullable<Settings['schedule']>,
  settings: Settings,
  { database }: OpenDatabase,
  analytics: Pick<Analytics, 'sendOffenderAlerts'>,
  log: Pick<OutageLog, 'error'>,
): Scheduler {
  const { clock } = settings
  const { olderThanDays } = schedule
  const work: Record<JobName, Job['run']> = {
    alerts: async () => failuresFor(await analytics.sendOffenderAlerts()),
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
    name: sharedName(name, settings),
    nextRun,
    run: work[name],
  }))
  return new Scheduler({ jobs, leases: new JobLeases(database), clock, log })
}

/** Returns the names of this app's jobs in the database. */
export function jobNames(settings: Settings): string[] {
  return (settings.schedule?.jobs ?? []).map(({ name }) => sharedName(name, settings))
}

/** Adds the namespace: apps that only share the database each run their own jobs. */
function sharedName(name: JobName, { namespace }: Settings): string {
  return namespace === undefined ? name : `${name}@${namespace}`
}

function failuresFor({ channels }: AlertResult): string | null {
  const failures = Object.entries(channels).flatMap(([name, { error }]) =>
    error === undefined ? [] : `${name} failed (${error})`,
  )
  return failures.length === 0 ? null : failures.join(', ')
}
