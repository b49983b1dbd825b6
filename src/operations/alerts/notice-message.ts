/** The message that a client has used a share of a window. */
import { formatCount } from '../../ground/number-text.js'
import { visible } from '../../ground/visible.js'
import type { Fact, FactsMessage } from './facts-message.js'
import { clientLink, shortened } from './message.js'
import type { ToldNotice } from './notice-table.js'

/** Chats take some thousand characters in all. */
const MAX_NAME = 200
const MAX_URL = 1_000

/** @param publicUrl the address of the dashboard, as `parsePublicUrl` answers it; undefined where it is not known */
export function createNoticeMessage(notice: ToldNotice, publicUrl: string | undefined): FactsMessage {
  const { id, client, limit, share, most, startMs, endMs, atMs } = notice
  const link = publicUrl === undefined ? '' : clientLink(publicUrl, client, 1)
  const url = link.length <= MAX_URL ? link : ''
  return {
    id: `notice/${id}`,
    title: `Notice: ${share}% of a limit is used`,
    sentence: `A client has used ${formatCount(limit.count)} of the ${formatCount(most)} that a limit allows it until ${momentText(endMs)}.`,
    facts: factsOf(notice),
    links: url === '' ? [] : [{ text: 'Open the client', url }],
    kind: 'notice',
    json: {
      notice: {
        id,
        client,
        limit,
        share,
        most,
        since: new Date(startMs).toISOString(),
        until: new Date(endMs).toISOString(),
        at: new Date(atMs).toISOString(),
        ...(url !== '' && { url }),
      },
    },
  }
}

function factsOf({ client, limit, share, most, startMs, endMs }: ToldNotice): Fact[] {
  const named = (text: string) => shortened(visible(text), MAX_NAME)
  return [
    { name: 'Client', value: named(client) },
    { name: 'Policy', value: named(limit.policy) },
    { name: 'Rate', value: `${limit.rate} (${limit.unit})` },
    { name: 'Used', value: `${formatCount(limit.count)} of ${formatCount(most)}` },
    { name: 'Notice at', value: `${share}%` },
    { name: 'Since', value: momentText(startMs) },
    { name: 'Until', value: momentText(endMs) },
  ]
}

/** Formats `2026-11-26 12:53:20 UTC`. */
function momentText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace('T', ' ')} UTC`
}
