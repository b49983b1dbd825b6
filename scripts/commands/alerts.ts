import type { AlertChannels } from '../../src/alerts/send-alerts.js'
import { type Analytics, createAnalytics } from '../../src/analytics/analytics.js'
import type { Offender } from '../../src/analytics/top-offenders.js'
import { type CommandResult, defineCommand } from './support/command.js'
import {
  commandSettings,
  DATABASE_ENVIRONMENT,
  DATABASE_OPTIONS,
  withExistingDatabase,
} from './support/open-database.js'
import { MAX_DAYS, MAX_INTEGER } from './support/options.js'

/** A list as long as this one was cut. */
const MAX_OFFENDERS = 100

export const alerts = defineCommand({
  name: 'alerts',
  summary: 'Report the clients with the most refused requests',
  description: [
    'Lists the clients that were refused at least --threshold times within the last --days days; run it from a scheduler. Without a threshold it does nothing.',
    'This version has no channel to send an alert by: what it prints is the alert.',
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
  environment: { ...DATABASE_ENVIRONMENT, RATELIMIT_ALERT_THRESHOLD: 'the threshold where --threshold is absent' },
  example: 'ratelimit alerts --threshold 100 --days 1 --dry-run',

  async run({ threshold: given, days, 'dry-run': dryRun, schema }) {
    const settings = commandSettings(schema)
    const threshold = given ?? settings.alertThreshold
    if (threshold === undefined) return disabled()
    return withExistingDatabase(settings, ({ client }) => {
      const analytics = createAnalytics({ database: client, clock: settings.clock })
      return dryRun ? listOffenders(analytics, threshold, days) : sendAlerts(analytics, threshold, days)
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
  const offenders = await analytics.findAlertableOffenders({ threshold, days, limit: MAX_OFFENDERS })
  return {
    json: { enabled: true, threshold, days, offenders, channels: {}, dry_run: true },
    lines: [`${offenders.length} offender(s) >= ${threshold} blocked in ${days} day(s):`, ...offenderLines(offenders)],
  }
}

/** Lists the offenders too: the line about the channels alone would not say whom to look at. */
async function sendAlerts(analytics: Analytics, threshold: number, days: number): Promise<CommandResult> {
  const result = await analytics.sendOffenderAlerts({ threshold, days })
  const { offenders, channels } = result
  const failures = channelEntries(channels).filter(([, { sent }]) => !sent)
  return {
    json: { ...result, dry_run: false },
    lines: [
      `${offenders.length} offender(s) over threshold ${threshold}; channels: ${describeChannels(channels)}`,
      ...offenderLines(offenders),
    ],
    failures: failures.map(([name, { error = 'unknown error' }]) => `${name} failed: ${error}`),
  }
}

function offenderLines(offenders: readonly Offender[]): string[] {
  const lines = offenders.map(({ key, blocked_count }) => `  ${key}: ${blocked_count}`)
  return offenders.length < MAX_OFFENDERS ? lines : [...lines, `  (the first ${MAX_OFFENDERS}; there may be more)`]
}

function describeChannels(channels: AlertChannels): string {
  const outcomes = channelEntries(channels).map(([name, { sent, error }]) =>
    sent ? `${name} sent` : `${name} failed (${error})`,
  )
  return outcomes.length === 0 ? 'none configured' : outcomes.join(', ')
}

function channelEntries(channels: AlertChannels): [string, { readonly sent: boolean; readonly error?: string }][] {
  return Object.entries(channels)
}
