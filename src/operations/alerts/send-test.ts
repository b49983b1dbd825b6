import { ALERT_TIMES } from './channels/channel.js'
import { type ChannelDependencies, createChannels } from './channels/channels.js'
import { createTestMessage } from './channels/message.js'
import { type TellDependencies, tellChannels } from './sender.js'

export interface TestOutcome {
  /** The name of the channel. */
  readonly channel: string
  /** The reason why the test failed, without secrets; undefined when it did not. */
  readonly error: string | undefined
}

/** A person waits for the answer. */
const TEST_TIMES = { ...ALERT_TIMES, emailTimeoutMs: 10_000 }

/** Sends a test message through each channel of the settings. Never rejects; without a channel it does nothing. */
export async function sendTestMessages(dependencies: ChannelDependencies & TellDependencies): Promise<TestOutcome[]> {
  const { settings, times = TEST_TIMES } = dependencies
  const message = createTestMessage(settings.publicUrl)
  const finding = { key: message.id, news: 'found' } as const
  const senders = await tellChannels(
    dependencies,
    'test',
    createChannels({ ...dependencies, times }),
    (sender) => sender.send([finding], () => message, undefined),
    // The page shows the failure.
    { report: () => undefined },
  )
  return senders.map(({ channel, error }) => ({ channel: channel.name, error }))
}
