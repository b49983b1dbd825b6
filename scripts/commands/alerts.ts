import type { ChannelOutcome } from '../../src/operations/alerts/channels/channel.js'
import { type AlertChannels, channelsOn } from '../../src/operations/alerts/channels/channels.js'
import type { IncidentOutcome } from '../../src/operations/alerts/incidents.js'
import { MAX_ALERTED } from '../../src/operations/alerts/offenders.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import type { Analytics } from '../../src/plugin/reports.js'
import type { Incident } from '../../src/reports/incidents/incident.js'
import type { Offender } from '../../src/reports/ranking.js'
import type { ReportWindow, TimeRange } from '../../src/reports/report-window.js'
import { rangeText } from '../../src/staff/dashboard/time-range.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withExistingDatabase } from './support/open-database.js'
import { parseRange, type RangeOptions, rangeJson } from './support/option-values.js'

interface AlertsOptions extends DatabaseOptions, RangeOptions {
  readonly threshold?: number | undefined
  readonly days: number
  readonly dryRun?: true | undefined
  readonly incidents?: true | undefined
}

/** The most offenders listed; `--json` lists all. */
const MAX_LINES = 100

export async function run(options: AlertsOptions, context: CommandContext): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  const { days, dryRun, incidents, threshold = settings.alerts.alertThreshold } = options
  const range = parseRange({ since: options.since, until: options.until }, settings.clock.now())
  if (range !== undefined && !dryRun) {
    throw new UsageError('--since and --until go with --dry-run: alerts that are sent are about the present')
  }
  if (threshold === undefined && !incidents) return disabled()
  return withExistingDatabase(settings, context, ({ database }) => {
    const isConfigured = channelsOn(settings.alerts).length > 0
    const failures: string[] = []
    const log = { error: (_details: object, message: string) => failures.push(message) }
    const analytics = analyticsFor(database, settings.clock, { settings: settings.alerts, log })
    if (threshold === undefined || incidents) {
      return dryRun ? listIncidents(analytics, range) : tellIncidents(analytics, isConfigured, failures)
    }
    return dryRun
      ? listOffenders(analytics, threshold, range ?? { days })
      : sendAlerts(analytics, threshold, days, isConfigured, failures)
  })
}

async function listIncidents(analytics: Analytics, range: TimeRange | undefined): Promise<CommandResult> {
  const incidents = await analytics.getIncidents(range)
  return {
    json: { incidents, channels: {}, dry_run: true },
    lines: [
      `${incidentCount(incidents)} ${range === undefined ? 'in the last day' : rangeText(range)}:`,
      ...incidents.map(incidentLine),
    ],
  }
}

/** @param failures filled while the alerts are sent */
async function tellIncidents(
  analytics: Analytics,
  isConfigured: boolean,
  failures: readonly string[],
): Promise<CommandResult> {
  const result = await analytics.sendIncidentAlerts()
  const outcomes = Object.entries(result.channels).map(([name, { told, error }]: [string, IncidentOutcome]) =>
    error === undefined ? `${name} told ${told}` : `${name} told ${told}, failed (${error})`,
  )
  const { incidents } = result
  const channels = isConfigured ? `${incidentCount(incidents)} in the last day; channels: ${outcomes.join(', ')}` : ''
  return {
    json: { ...result, dry_run: false },
    lines: [channels || 'No alert was sent: no channel is configured', ...incidents.map(incidentLine)],
    failures,
  }
}

function incidentCount({ length }: readonly Incident[]): string {
  return length === 1 ? '1 incident' : `${length} incidents`
}

function incidentLine({ scope, refused, from, state }: Incident): string {
  return `  ${scope}: ${refused} refused since ${from} (${state.replace('_', ' ')})`
}

function disabled(): CommandResult {
  return {
    json: { enabled: false, offenders: [], channels: {} },
    lines: ['Alerting disabled (set --threshold or RATELIMIT_ALERT_THRESHOLD).'],
  }
}

async function listOffenders(analytics: Analytics, threshold: number, window: ReportWindow): Promise<CommandResult> {
  const offenders = await analytics.findAlertableOffenders({ threshold, ...window, limit: MAX_ALERTED })
  const words = window.since === undefined ? `in ${window.days} day(s)` : rangeText(window)
  return {
    json: {
      enabled: true,
      threshold,
      ...(window.since === undefined ? { days: window.days } : rangeJson(window)),
      offenders,
      channels: {},
      dry_run: true,
    },
    lines: [`${offenders.length} offender(s) >= ${threshold} blocked ${words}:`, ...offenderLines(offenders)],
  }
}

/**
 * Sends the alerts and lists the offenders, whom the line about the channels does not name.
 *
 * @param failures filled while the alerts are sent
 */
async function sendAlerts(
  analytics: Analytics,
  threshold: number,
  days: number,
  isConfigured: boolean,
  failures: readonly string[],
): Promise<CommandResult> {
  const result = await analytics.sendOffenderAlerts({ threshold, days })
  const { offenders, channels } = result
  return {
    json: { ...result, dry_run: false },
    lines: [
      `${offenders.length} offender(s) over threshold ${threshold}; channels: ${describeChannels(channels) || (isConfigured ? 'nothing to send' : 'none configured')}`,
      ...offenderLines(offenders),
    ],
    failures,
  }
}

function offenderLines(offenders: readonly Offender[]): string[] {
  const lines = offenders.slice(0, MAX_LINES).map(({ key, blocked_count }) => `  ${key}: ${blocked_count}`)
  const more = offenders.length - lines.length
  return more === 0 ? lines : [...lines, `  and ${more} more`]
}

function describeChannels(channels: AlertChannels): string {
  const outcomes = Object.entries(channels).map(([name, outcome]: [string, ChannelOutcome]) => {
    const { sent, error, quiet = 0, resolved = 0 } = outcome
    const notes = [
      ...(quiet > 0 ? [`${quiet} within the cool-down`] : []),
      ...(resolved > 0 ? [`${resolved} resolved`] : []),
    ]
    if (error !== undefined) return `${name} failed (${error})`
    return `${name} ${sent ? 'sent' : 'quiet'}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`
  })
  return outcomes.join(', ')
}
