import type { Database } from '../../database/database.js'
import { recordRuns } from './alert-runs.js'
import { ALERT_TIMES, type AlertTimes, deliver } from './channel.js'
import { type ChannelDependencies, createChannels, listChannels } from './channels.js'
import { createTestMessage } from './facts-message.js'
import type { AlertLog } from './notify.js'

interface TestDependencies extends ChannelDependencies {
  readonly database: Database
  readonly log: AlertLog
}

export interface TestOutcome {
  readonly channel: 'email' | 'webhook'
  /** The reason why the test failed, without secrets; undefined when it did not. */
  readonly error: string | undefined
}

/** A person waits for the answer. */
const TEST_TIMES: AlertTimes = { ...ALERT_TIMES, emailTimeoutMs: 10_000 }

/** Sends a test message through each channel of the settings. Never rejects; without a channel it does nothing. */
export async function sendTestMessages(dependencies: TestDependencies): Promise<TestOutcome[]> {
  const { settings, times = TEST_TIMES } = dependencies
  const message = createTestMessage(settings.publicUrl)
  const runs = await Promise.all(
    listChannels(createChannels({ ...dependencies, times })).map(async (channel) => {
      const { delivered, error } = await deliver(channel, message)
      return { channel, told: delivered ? 1 : 0, error }
    }),
  )
  await recordRuns(dependencies, 'test', runs)
  return runs.map(({ channel, error }) => ({ channel: channel.name, error }))
}
