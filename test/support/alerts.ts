import type { TestContext } from 'node:test'
import { ALERT_TIMES, type AlertTimes } from '../../src/operations/alerts/channels/channel.js'
import { type AlertSettingOptions, resolveAlertSettings } from '../../src/operations/alerts/channels/channels.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { atEnd } from './at-end.js'
import { type FakeClock, fakeClock } from './clock.js'
import { openTestDatabase, type TestDatabase } from './databases.js'
import { logEvents } from './events.js'

/** The times that a test has to wait for are shorter than in real life. */
export const SHORT_TIMES: AlertTimes = { webhookTimeoutMs: 250, webhookRetryMs: 5, emailTimeoutMs: 400 }

export interface AlertRun {
  readonly clock: FakeClock
  readonly database: TestDatabase
  /** The lines that were logged. */
  readonly log: { readonly details: object; readonly message: string }[]
  /** The reports of a process of its own, with these settings. */
  analytics(options: AlertSettingOptions, times?: Partial<AlertTimes>): ReturnType<typeof analyticsFor>
  block(key: string, times: number): Promise<void>
}

/** A database with an event log, and processes that send alerts about it. */
export async function startAlerts(
  t: TestContext,
  open: (clock: FakeClock) => Promise<TestDatabase> = (clock) => openTestDatabase('sqlite', clock),
): Promise<AlertRun> {
  // The real time: receivers check how old a signature is.
  const clock = fakeClock(Date.now())
  const database = await open(clock)
  atEnd(t, database.close)
  const log: AlertRun['log'] = []
  return {
    clock,
    database,
    log,
    analytics: (options, times = {}) =>
      analyticsFor(database.database, clock, {
        settings: resolveAlertSettings(options),
        log: { error: (details, message) => log.push({ details, message }) },
        times: { ...ALERT_TIMES, webhookRetryMs: SHORT_TIMES.webhookRetryMs, ...times },
      }),
    block: (key, times) => logEvents(database.client, { key, blocked: times, atMs: clock.now() }),
  }
}
