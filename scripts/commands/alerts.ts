import type { Offender } from '../../src/alerts/offender.js'
import { type AlertChannels, MAX_ALERTED } from '../../src/alerts/send-alerts.js'
import type { ChannelOutcome } from '../../src/alerts/tell.js'
import { type Analytics, analyticsOf } from '../../src/analytics/analytics.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { MAX_DAYS, MAX_INTEGER } from './support/options.js'

/** So many are listed; with `--json` all. */
const MAX_LINES = 100

export const alerts = defineCommand({
  name: 'alerts',
  summary: 'Tell about the clients with the most refused requests',
  description: [
    'Finds the clients that were refused at least --threshold times within the last --days days, and tells about them by email and by webhook, as far as these are set. Run it from a scheduler. Without a threshold it does nothing.',
    'Every run tells them all again, unless RATELIMIT_ALERT_COOLDOWN says for how long a client is not told about twice (or until it was refused twice as often).',
    'A channel that fails does not keep the other one from sending; it is named on stderr, and the exit status is 1.',
  ],
  options: {
    threshold: {
      type: 'integer',
      of: 'refused requests',
      min: 1,
      max: MAX_INTEGER,
      help: 'refused requests that make an offender (RATELIMIT_ALERT_THRESHOLD)',
    },
    days: { type: 'integer', of: 'days', min: 1, max: MAX_DAYS, default: 1, help: 'how far back to look' },
    'dry-run': { type: 'flag', help: 'list the offenders, send nothing' },
    ...DATABASE_OPTIONS,
  },
  environment: {
    ...DATABASE_ENVIRONMENT,
    RATELIMIT_ALERT_THRESHOLD: 'the threshold where --threshold is absent',
    RATELIMIT_ALERT_EMAILS: 'whom to tell by email, with commas between',
    DEFAULT_FROM_EMAIL: 'the sender of these mails',
    SMTP_URL: 'the mail server, smtps://user:password@mail.example.com',
    RATELIMIT_ALERT_WEBHOOK: 'the URL to post to',
    RATELIMIT_ALERT_WEBHOOK_SECRET: 'signs what is posted; several with commas between',
    RATELIMIT_ALERT_WEBHOOK_FORMAT: 'json (the default), slack, teams, discord or pagerduty',
    RATELIMIT_ALERT_ROUTING_KEY: 'the integration key of PagerDuty',
    RATELIMIT_ALERT_COOLDOWN: 'seconds for which a client is not told about again (0)',
    RATELIMIT_ALERT_RESOLVED: 'true tells when a client is below the threshold again',
    RATELIMIT_BLOCK_PRIVATE_NETWORKS: 'true refuses webhooks into private networks',
  },
  example: 'ratelimit alerts --threshold 100 --days 1 --dry-run',

  async run({ threshold: given, days, 'dry-run': dryRun, schema }) {
    const settings = commandSettings(schema)
    const threshold = given ?? settings.alerts.threshold
    if (threshold === undefined) return disabled()
    return withExistingDatabase(settings, ({ database }) => {
      const { emails, webhook } = settings.alerts
      const isConfigured = emails.length > 0 || webhook !== undefined
      const failures: string[] = []
      const log = { error: (_details: object, message: string) => failures.push(message) }
      const analytics = analyticsOf(database, settings.clock, { settings: settings.alerts, log })
      return dryRun
        ? listOffenders(analytics, threshold, days)
        : sendAlerts(analytics, threshold, days, isConfigured, failures)
    })
  },
})

function disabled(): CommandResult {
  return {
    json: { enabled: false, offenders: [], channels: {} },
    lines: ['Alerting disabled (set --threshold or RATELIMIT_ALERT_THRESHOLD).'],
  }
}

async function listOffenders(analytics: Analytics, threshold: number, days: number): Promise<CommandResult> {
  const offenders = await analytics.findAlertableOffenders({ threshold, days, limit: MAX_ALERTED })
  return {
    json: { enabled: true, threshold, days, offenders, channels: {}, dry_run: true },
    lines: [`${offenders.length} offender(s) >= ${threshold} blocked in ${days} day(s):`, ...offenderLines(offenders)],
  }
}

/**
 * Lists the offenders too: the line about the channels alone would not say whom to look at.
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
