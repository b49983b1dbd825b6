import type { AlertSettings } from './alerts/alert-settings.js'
import { InvalidSettingError } from './errors.js'
import { Type } from './generated/typebox.js'
import {
  JOB_NAMES,
  type JobName,
  type NextRun,
  parseSchedule,
  type ScheduleOptions,
} from './schedule/schedule-options.js'
import { checkFields, explain } from './settings-check.js'

const Pattern = [Type.String(), 'five fields as in a crontab, such as */5 * * * *'] as const
const FIELDS = {
  alerts: Pattern,
  cleanup: Pattern,
  pruneEvents: Pattern,
  olderThanDays: [Type.Number({ minimum: 0, maximum: 36_500 }), 'days, 0 to 36500'],
} as const

export interface Schedule {
  readonly jobs: readonly { readonly name: JobName; readonly nextRun: NextRun }[]
  readonly olderThanDays: number
}

/**
 * Reads what is to be done when.
 *
 * @throws InvalidSettingError for what is wrong, unknown, names nothing, or could do nothing
 */
export function resolveSchedule(options: ScheduleOptions | undefined, alerts: AlertSettings): Schedule | undefined {
  if (options === undefined) return undefined
  checkFields(options, FIELDS, (name) => `schedule.${name}`)
  const jobs = JOB_NAMES.flatMap((name) => {
    const pattern = options[name]
    if (pattern === undefined) return []
    return { name, nextRun: explain(`schedule.${name}`, pattern, () => parseSchedule(pattern)) }
  })
  if (jobs.length === 0) {
    throw new InvalidSettingError(`Setting "schedule" names nothing: give ${JOB_NAMES.join(', ')}, or some of them`)
  }
  if (options.alerts !== undefined) checkAlerts(alerts)
  if (options.olderThanDays !== undefined && options.pruneEvents === undefined) {
    throw new InvalidSettingError('Setting "schedule.olderThanDays" is given without "schedule.pruneEvents": give both')
  }
  return { jobs, olderThanDays: options.olderThanDays ?? 30 }
}

function checkAlerts({ threshold, emails, webhook }: AlertSettings): void {
  if (threshold === undefined) {
    throw new InvalidSettingError(
      'Setting "schedule.alerts" is given without "alertThreshold": give that option, or RATELIMIT_ALERT_THRESHOLD',
    )
  }
  if (emails.length === 0 && webhook === undefined) {
    throw new InvalidSettingError(
      'Setting "schedule.alerts" is given without anybody to tell: give alertEmails, or alertWebhook',
    )
  }
}
