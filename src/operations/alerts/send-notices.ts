/** Sends the messages about notices: by the server that has noted them, and by later runs of alerts what that could not. */
import type { Database } from '../../database/database.js'
import { errorMessage } from '../../ground/errors.js'
import type { Notice } from '../../limiter/notice.js'
import { recordRuns } from './alert-runs.js'
import { type AlertChannel, deliver, subscriptionOf } from './channel.js'
import { type ChannelDependencies, createChannels, listChannels } from './channels.js'
import { IncidentMemory } from './incident-memory.js'
import { createNoticeMessage } from './notice-message.js'
import { NoticeTable, toToldNotice } from './notice-table.js'
import type { AlertLog } from './notify.js'
import { MAX_TOLD, Telling } from './telling.js'

interface TellDependencies extends ChannelDependencies {
  readonly database: Database
}

/** Tells a channel of the notices that it was not told of. */
export async function tellNotices(
  channel: AlertChannel,
  telling: Telling,
  { database, clock, settings }: TellDependencies,
): Promise<void> {
  const watch = `${subscriptionOf(channel)}/notice`
  const memory = new IncidentMemory(database, clock, watch)
  await memory.forgetExpired()
  for (const notice of await new NoticeTable(database).untold(watch, clock.now(), MAX_TOLD)) {
    if (telling.hasEnded) return
    await telling.tell(memory, notice.id, 'found', createNoticeMessage(notice, settings.publicUrl))
  }
}

export interface NoticeMessagesOptions extends ChannelDependencies {
  /** Keeps what is to be told; undefined where a message that fails is lost. */
  readonly database: Database | undefined
  readonly namespace: string | undefined
  readonly log: AlertLog
}

/** The most messages that wait where no table keeps them; further ones are lost. */
const MAX_WAITING = 1_000

/**
 * Sends the messages of this process in the background, one after the other. With a database that keeps them, a message that
 * fails is tried again with the next notice, and by each run of alerts.
 */
export class NoticeMessages {
  readonly #options: NoticeMessagesOptions
  readonly #channels: readonly AlertChannel[]
  /** What is to be sent where no table keeps it. */
  #waiting: Notice[] = []
  /** Whether the table may have notices to tell of. */
  #mayHaveMore = false
  #sending: Promise<void> | undefined
  readonly #failing = new Set<string>()
  #isClosed = false

  constructor(options: NoticeMessagesOptions) {
    this.#options = options
    this.#channels = listChannels(createChannels(options))
  }

  /** Sends messages. Never throws, and nothing waits for it. */
  send(notices: readonly Notice[]): void {
    if (this.#channels.length === 0) return
    if (this.#options.database !== undefined) this.#mayHaveMore = true
    else if (this.#waiting.length + notices.length <= MAX_WAITING) this.#waiting.push(...notices)
    else this.#report('waiting', `more than ${MAX_WAITING} messages wait: further ones are lost`)
    this.#sending ??= this.#sendAll()
  }

  /** Resolves when all messages are sent, or have failed. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#sending
  }

  async #sendAll(): Promise<void> {
    const { database } = this.#options
    while (this.#mayHaveMore || this.#waiting.length > 0) {
      this.#mayHaveMore = false
      if (database !== undefined) await this.#tellOf(database)
      else await this.#deliver(this.#waiting.splice(0, 1))
    }
    this.#sending = undefined
  }

  async #tellOf(database: Database): Promise<void> {
    const dependencies = { ...this.#options, database }
    const runs = await Promise.all(
      this.#channels.map(async (channel) => {
        const telling = new Telling(channel, this.#options.log)
        const failure = await tellNotices(channel, telling, dependencies).catch((error: unknown) =>
          // An error while the database is being closed is no failure.
          this.#isClosed ? undefined : errorMessage(error),
        )
        const error = failure ?? telling.error
        this.#report(channel.name, error)
        if (telling.told === MAX_TOLD && error === undefined) this.#mayHaveMore = true
        return { channel, told: telling.told, error }
      }),
    )
    await recordRuns(dependencies, 'notices', runs)
  }

  async #deliver(notices: readonly Notice[]): Promise<void> {
    const { namespace, settings } = this.#options
    for (const notice of notices) {
      const message = createNoticeMessage(toToldNotice(notice, namespace), settings.publicUrl)
      for (const channel of this.#channels) this.#report(channel.name, (await deliver(channel, message)).error)
    }
  }

  /** Logs a failure once, until the channel works again. */
  #report(name: string, error: string | undefined): void {
    if (error === undefined) {
      this.#failing.delete(name)
      return
    }
    if (!this.#failing.has(name)) {
      this.#options.log.error({ channel: name }, `Rate limit notice by ${name} failed: ${error}`)
    }
    this.#failing.add(name)
  }
}
