import type { Cron } from 'croner'
import { errorMessage } from '../../ground/errors.js'
import { loadModule } from '../../ground/package-root.js'

/**
 * The times when this process runs the jobs otherwise left to cron: patterns of five fields, in the time zone of the
 * process.
 */
export interface ScheduleOptions {
  /** The times when the channels of alerts are told of incidents, each incident once: `sendIncidentAlerts()`. */
  alerts?: string | undefined
  /** The times when counters that expired a week ago are deleted. */
  cleanup?: string | undefined
  /** The times when old events are deleted. */
  pruneEvents?: string | undefined
  /** The age at which an event is deleted, in days; 30 by default. */
  olderThanDays?: number | undefined
}

export const JOB_NAMES = ['alerts', 'cleanup', 'pruneEvents'] as const

export type JobName = (typeof JOB_NAMES)[number]

/** Returns the name of a job in the database: apps of other namespaces that only share it run their own jobs. */
export function sharedJobName(name: JobName, namespace: string | undefined): string {
  return namespace === undefined ? name : `${name}@${namespace}`
}

/** Returns the first moment of a schedule after another one; milliseconds since the epoch. */
export type NextRun = (afterMs: number) => number

const FIVE_FIELDS = /^(?:@\w+|\S+(?:\s+\S+){4})$/

/**
 * Parses a schedule.
 *
 * @param pattern `minute hour day-of-month month day-of-week`, as in a crontab, or `@hourly` and the like
 * @throws Error for an invalid pattern, or one that never occurs
 */
export function parseSchedule(pattern: string): NextRun {
  // Cron also accepts a single moment, which is one word.
  if (!FIVE_FIELDS.test(pattern.trim())) throw new Error('give five fields as in a crontab, such as "*/5 * * * *"')
  const cron = createCron(pattern)
  const nextRun = (afterMs: number) => cron.nextRun(new Date(afterMs))?.getTime() ?? Number.POSITIVE_INFINITY
  if (nextRun(Date.UTC(2000, 0)) === Number.POSITIVE_INFINITY) throw new Error('there is no such day')
  return nextRun
}

function createCron(pattern: string): Cron {
  // The module is loaded here, since most servers have no schedule.
  const croner = loadModule('croner') as typeof import('croner')
  try {
    return new croner.Cron(pattern, { paused: true, mode: '5-part' })
  } catch (error) {
    throw new Error(errorMessage(error).replace(/^CronPattern: /, ''))
  }
}
