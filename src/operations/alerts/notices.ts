/** Sends the messages about notices: by the server that has noted them, and by later runs of alerts what that could not. */
import type { Database } from '../../database/database.js'
import { formatCount } from '../../ground/number-text.js'
import type { Notice } from '../../limiter/notice.js'
import { type AlertChannel, type AlertLog, deliver, subscriptionOf } from './channels/channel.js'
import { type ChannelDependencies, createChannels } from './channels/channels.js'
import { clientLink, MAX_URL, type Message, momentText, shownName } from './channels/message.js'
import { Ledger } from './ledger.js'
import { NoticeTable, type ToldNotice, toToldNotice } from './notice-table.js'
import { MAX_TOLD, type Sender, tellChannels } from './sender.js'

const MAX_NAME = 200
/** The most messages that wait where no table keeps them; further ones are lost. */
const MAX_WAITING = 1_000

/**
 * Tells a channel of the notices that it was not told of, until the run ends. A page of which other processes tell is no reason
 * to end: further ones may be told of by nobody.
 */
export async function tellNotices(
  sender: Sender,
  { database, clock, settings }: ChannelDependencies & { readonly database: Database },
): Promise<void> {
  const watch = `${subscriptionOf(sender.channel)}/notice`
  const ledger = new Ledger(database, clock, watch)
  await ledger.forgetExpired()
  const table = new NoticeTable(database)
  let page: readonly ToldNotice[] = []
  do {
    page = await table.untold(watch, clock.now(), MAX_TOLD, page.at(-1))
    for (const notice of page) {
      if (sender.hasEnded) return
      const finding = { key: notice.id, news: 'found' } as const
      await sender.send([finding], () => createNoticeMessage(notice, settings.publicUrl), ledger)
    }
  } while (page.length === MAX_TOLD)
}

interface NoticeMessagesOptions extends ChannelDependencies {
  /** Keeps what is to be told; undefined where a message that fails is lost. */
  readonly database: Database | undefined
  readonly namespace: string | undefined
  readonly log: AlertLog
}

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
    this.#channels = createChannels(options)
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
    // An error while the database is being closed is no failure.
    const tell = (sender: Sender) =>
      tellNotices(sender, dependencies).catch((error: unknown) => {
        if (!this.#isClosed) throw error
      })
    const report = ({ channel, error }: Sender) => this.#report(channel.name, error)
    const senders = await tellChannels(dependencies, 'notices', this.#channels, tell, { report })
    // One message that is refused does not hold up the others.
    this.#mayHaveMore ||= senders.some(({ isFull }) => isFull)
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

/** @param publicUrl the address of the dashboard, as `parsePublicUrl` answers it; undefined where it is not known */
function createNoticeMessage(notice: ToldNotice, publicUrl: string | undefined): Message {
  const { id, client, limit, share, most, startMs, endMs, atMs } = notice
  const link = publicUrl === undefined ? '' : clientLink(publicUrl, client, 1)
  const url = link.length <= MAX_URL ? link : ''
  const isoTime = (ms: number) => new Date(ms).toISOString()
  const [since, until] = [isoTime(startMs), isoTime(endMs)]
  return {
    id: `notice/${id}`,
    kind: 'notice',
    title: `Notice: ${share}% of a limit is used`,
    sentence: `A client has used ${formatCount(limit.count)} of the ${formatCount(most)} that a limit allows it until ${momentText(until, 'second')}.`,
    facts: [
      { name: 'Client', value: shownName(client, MAX_NAME) },
      { name: 'Policy', value: shownName(limit.policy, MAX_NAME) },
      { name: 'Rate', value: `${limit.rate} (${limit.unit})` },
      { name: 'Used', value: `${formatCount(limit.count)} of ${formatCount(most)}` },
      { name: 'Notice at', value: `${share}%` },
      { name: 'Since', value: momentText(since, 'second') },
      { name: 'Until', value: momentText(until, 'second') },
    ],
    links: url === '' ? [] : [{ text: 'Open the client', url }],
    publicUrl,
    json: { notice: { id, client, limit, share, most, since, until, at: isoTime(atMs), ...(url !== '' && { url }) } },
  }
}
