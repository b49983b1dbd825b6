/** What follows from requests: notices, counted responses, requests in progress, charges and bans. */
import { errorMessage } from '../../ground/errors.js'
import { madeOnce } from '../../ground/remember.js'
import { ChargedUnits } from '../../http/charged-units.js'
import { createRequestAddresses, meetsEntries } from '../../http/client-address.js'
import { CodeCounters } from '../../http/code-counters.js'
import { Notices } from '../../http/notices.js'
import { RefusalBans } from '../../http/refusal-bans.js'
import { CountedResponses, HeldPermits } from '../../http/request-end.js'
import { canSettle } from '../../limiter/core/counting-settings.js'
import { wholeMs } from '../../limiter/core/store-limiter.js'
import { claimByCounters, type Notice } from '../../limiter/notice.js'
import { channelsOn } from '../../operations/alerts/channels/channels.js'
import { NoticeTable } from '../../operations/alerts/notice-table.js'
import type { NoticeMessages } from '../../operations/alerts/notices.js'
import { databasesInUse } from '../settings/databases-in-use.js'
import type { Connections, Host } from './connections.js'
import type { CountingParts } from './counting.js'
import type { LogParts } from './log.js'
import type { RuleParts } from './rules.js'

/** What follows from requests, but for charges. */
export interface RequestParts extends ReturnType<typeof openRequests> {}

export function openRequests(parts: Host & Connections & RuleParts & CountingParts) {
  const { app, settings, components, clock, limiter, storeLog } = parts
  const { ipv6Subnet, middleware, privacy } = settings
  const now = wholeMs(clock)
  const messages = components.open('messages of notices', createNoticeMessages(parts))
  const notices = components.open('notices', createNotices(parts, messages))
  const responses = new CountedResponses(limiter, now, notices, (error) =>
    storeLog.error({ err: error }, 'Rate limit failed to count a response'),
  )
  const permits = new HeldPermits(limiter, now, (error) =>
    storeLog.error({ err: error }, 'Rate limit failed to give back the permit of a request: its period frees it'),
  )
  return {
    notices,
    responses: components.open('counted responses', responses),
    permits: components.open('requests in progress', permits),
    bans: components.open('refusals', createRefusalBans(parts)),
    counters: new CodeCounters(),
    addresses: createRequestAddresses(ipv6Subnet, middleware.addresses, app.log, privacy),
  }
}

/** Opens the charges. Their usage is logged: they are opened after the log, and closed before it. */
export function openCharges(parts: Host & Connections & RuleParts & CountingParts & RequestParts & LogParts) {
  const { components, clock, limiter, current, notices, usage } = parts
  const now = wholeMs(clock)
  const units = new ChargedUnits(limiter, now, usage, () => current.lastGood(), notices)
  return { units: components.open('charges', units) }
}

/** Creates what tells of shares of windows that clients have used. */
function createNotices(
  { app, settings, database, limiter }: Host & Connections & CountingParts,
  messages: Pick<NoticeMessages, 'send'>,
): Notices {
  const { namespace, onNotice } = settings
  return new Notices({
    claims: databasesInUse(settings, database).includes(database)
      ? new NoticeTable(database, namespace)
      : { claim: (notices) => claimByCounters(limiter, notices) },
    onNotice,
    send: (notices) => messages.send(notices),
    log: app.log,
  })
}

/** Creates what sends messages about notices: few servers load it. */
function createNoticeMessages({ settings, clock, database, log }: Host & Connections) {
  const { alerts, namespace } = settings
  const kept = databasesInUse(settings, database).includes(database) ? database : undefined
  const load = madeOnce(async () => {
    const { NoticeMessages } = await import('../../operations/alerts/notices.js')
    return new NoticeMessages({ database: kept, namespace, settings: alerts, clock, log })
  })
  let loaded: Promise<NoticeMessages | undefined> | undefined
  return {
    send(notices: readonly Notice[]): void {
      if (channelsOn(alerts).length === 0) return
      loaded = load()
        .then((messages) => {
          messages.send(notices)
          return messages
        })
        .catch((error: unknown) => {
          log.error({ err: error }, `Rate limit notices cannot be sent: ${errorMessage(error)}`)
          return undefined
        })
    },
    close: async () => (await loaded)?.close(),
  }
}

/** Creates the counting of refusals, for rules that ban clients. */
function createRefusalBans(parts: Host & Connections & RuleParts & CountingParts): RefusalBans {
  const { settings, store, limiter, current, writer, log } = parts
  const { addresses } = settings.middleware
  return new RefusalBans({
    limiter,
    writer,
    log,
    isAllowed: (client, nowMs) =>
      (client.kind === 'ip' && meetsEntries(addresses.allow, addresses.named, client)) ||
      current.lastGood().overrides.allows(client, nowMs),
    clear: (settlement, nowMs) =>
      // A reset would make all processes forget what they remember.
      canSettle(store) ? limiter.settle(settlement, nowMs) : limiter.reset([settlement.key]).catch(() => undefined),
  })
}
