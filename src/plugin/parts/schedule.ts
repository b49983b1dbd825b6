/** The jobs of the scheduler. */

import type { Database } from '../../database/database.js'
import type { OutageLog } from '../../ground/outage-log.js'
import { cleanupState } from '../../limiter/stores/sql/state-cleanup.js'
import { cleanupOldEvents } from '../../log/rollups/retention.js'
import type { IncidentAlertResult } from '../../operations/alerts/incidents.js'
import { JobLeases } from '../../operations/schedule/job-leases.js'
import { type JobName, type NextRun, sharedJobName } from '../../operations/schedule/schedule-options.js'
import { type Job, Scheduler } from '../../operations/schedule/scheduler.js'
import type { Settings } from '../settings/resolve.js'
import type { ReportParts } from './reports.js'

interface ScheduledParts extends ReportParts {
  readonly settings: Settings
  readonly database: Database
  readonly log: Pick<OutageLog, 'error'>
}

export function createScheduler(
  schedule: NonNullable<Settings['schedule']>,
  { settings, database, reports, log }: ScheduledParts,
): Scheduler {
  const { clock } = settings
  const { olderThanDays } = schedule
  const work: Record<JobName, Job['run']> = {
    alerts: async (signal) => failuresFor(await reports.sendIncidentAlerts({ signal })),
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

/** A job of this process's schedule. */
export interface ScheduledJob {
  /** The name in the database, which other apps do not have. */
  readonly name: string
  readonly nextRun: NextRun
}

/** Returns the alerts that this process sends by itself; undefined where it does not. */
export function findAlertJob({ enabled, schedule, namespace }: Settings): ScheduledJob | undefined {
  const job = schedule?.jobs.find(({ name }) => name === 'alerts')
  if (!enabled || job === undefined) return undefined
  return { name: sharedJobName(job.name, namespace), nextRun: job.nextRun }
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
