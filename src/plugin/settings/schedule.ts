import { VALIDATORS } from '../../generated/validators.js'
import { InvalidSettingError } from '../../ground/errors.js'
import { explain, parseSettings, type SettingTable, validateSettings } from '../../ground/setting.js'
import { type AlertSettings, CHANNEL_SWITCHES, channelsOn } from '../../operations/alerts/channels/channels.js'
import {
  JOB_NAMES,
  type JobName,
  type NextRun,
  parseSchedule,
  type ScheduleOptions,
} from '../../operations/schedule/schedule-options.js'

const PATTERN = {
  ...VALIDATORS.text,
  allowed: 'five fields as in a crontab, such as */5 * * * *',
  parse: (pattern: string, called: string): NextRun => explain(called, pattern, () => parseSchedule(pattern)),
}
export const SCHEDULE = {
  alerts: PATTERN,
  cleanup: PATTERN,
  pruneEvents: PATTERN,
  olderThanDays: { ...VALIDATORS.retention, default: 30 },
} as const satisfies SettingTable<ScheduleOptions>

export interface Schedule {
  readonly jobs: readonly { readonly name: JobName; readonly nextRun: NextRun }[]
  readonly olderThanDays: number
}

/**
 * Resolves the schedule.
 *
 * @throws InvalidSettingError for an option that is invalid, unknown or without effect, or where no job is given
 */
export function resolveSchedule(options: ScheduleOptions | undefined, alerts: AlertSettings): Schedule | undefined {
  if (options === undefined) return undefined
  const called = (name: string) => `schedule.${name}`
  validateSettings(SCHEDULE, options, called)
  const schedule = parseSettings(SCHEDULE, options, called)
  const jobs = JOB_NAMES.flatMap((name) => {
    const nextRun = schedule[name]
    return nextRun === undefined ? [] : { name, nextRun }
  })
  if (jobs.length === 0) {
    throw new InvalidSettingError(`Setting "schedule" names nothing: give ${JOB_NAMES.join(', ')}, or some of them`)
  }
  if (options.alerts !== undefined && channelsOn(alerts).length === 0) {
    throw new InvalidSettingError(
      `Setting "schedule.alerts" is given without a channel: give ${CHANNEL_SWITCHES.join(', or ')}`,
    )
  }
  if (options.olderThanDays !== undefined && options.pruneEvents === undefined) {
    throw new InvalidSettingError('Setting "schedule.olderThanDays" is given without "schedule.pruneEvents": give both')
  }
  return { jobs, olderThanDays: schedule.olderThanDays }
}
