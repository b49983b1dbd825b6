import type { Offender } from '../../reports/ranking.js'
import { toFactsBody } from './facts-body.js'
import type { FactsMessage } from './facts-message.js'
import {
  type AlertMessage,
  clientLink,
  type ListedOffender,
  listedKeys,
  listOffenders,
  type TextLine,
  textLines,
  toSentence,
  toTitle,
} from './message.js'
import { teamsCard } from './teams-card.js'
import { GREEN, RED, type WebhookFormat } from './webhook-format.js'

/** The documented maximum: receivers may refuse more. */
const MAX_JSON_BYTES = 20_000
/** Fits into every chat: Discord takes 4,096 characters, a text of Slack 3,000. */
const CHAT_LINES = 20
const CHAT_KEY_LENGTH = 100
/** The longest description of an embed of Discord. */
const DISCORD_LENGTH = 4_096
const LINKS = '\nOpen'
/** PagerDuty takes 512 kB for an event. */
const PAGER_LINES = 100

/**
 * Returns the body to send to a receiver; undefined where the format has no use for the message.
 *
 * Clients write the keys: where a format has markup, the keys are placed where it is not interpreted.
 */
export function toWebhookBody(
  message: AlertMessage | FactsMessage,
  format: WebhookFormat,
  routingKey = '',
): string | undefined {
  if ('facts' in message) return toFactsBody(message, format, routingKey)
  if (format === 'json') return jsonBody(message)
  if (format === 'slack') return JSON.stringify(slackBody(message))
  if (format === 'teams') return JSON.stringify(teamsBody(message))
  if (format === 'discord') return JSON.stringify(discordBody(message))
  const event = pagerDutyEvent(message, routingKey)
  return event === undefined ? undefined : JSON.stringify(event)
}

/** Returns the documented JSON, cut from the end until it is small enough. `resolved` is present where a key is. */
function jsonBody({ threshold, days, offenders, resolved, publicUrl }: AlertMessage): string {
  // Leaves room for everything except the two lists.
  let left = MAX_JSON_BYTES - 200
  function fitting<Entry>(entries: readonly Entry[]): readonly Entry[] {
    const end = entries.findIndex((entry) => {
      left -= Buffer.byteLength(JSON.stringify(entry)) + 1
      return left < 0
    })
    return end === -1 ? entries : entries.slice(0, end)
  }
  const linked = (offender: Offender): ListedOffender =>
    publicUrl === undefined ? offender : { ...offender, url: clientLink(publicUrl, offender.key, days) }
  const shown = fitting(offenders.map(linked))
  const silent = fitting(resolved)
  return JSON.stringify({
    threshold,
    days,
    offenders: shown,
    ...(shown.length < offenders.length ? { omitted: offenders.length - shown.length } : {}),
    ...(resolved.length > 0 ? { resolved: silent } : {}),
    ...(silent.length < resolved.length ? { resolved_omitted: resolved.length - silent.length } : {}),
  })
}

/** Returns an incoming webhook: a fallback for notifications, and blocks. Texts inside `rich_text` have no markup. */
function slackBody(message: AlertMessage): object {
  const lines = textLines(message, CHAT_LINES, CHAT_KEY_LENGTH)
  const elements = lines.flatMap(({ text, url }, index) => [
    url === undefined ? { type: 'text', text } : { type: 'link', url, text },
    ...(index < lines.length - 1 ? [{ type: 'text', text: '\n' }] : []),
  ])
  return {
    text: `${toTitle(message)}: ${toSentence(message)}`,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: toTitle(message) } },
      { type: 'section', text: { type: 'plain_text', text: toSentence(message) } },
      { type: 'rich_text', elements: [{ type: 'rich_text_preformatted', elements }] },
    ],
  }
}

/** Returns a message of the Workflows app: one adaptive card. A `TextRun`, unlike a `TextBlock`, has no Markdown. */
function teamsBody(message: AlertMessage): object {
  const line = ({ text, url }: TextLine) => ({
    type: 'RichTextBlock',
    spacing: 'None',
    inlines: [
      { type: 'TextRun', text, fontType: 'Monospace', ...(url && { selectAction: { type: 'Action.OpenUrl', url } }) },
    ],
  })
  return teamsCard({
    body: [
      { type: 'TextBlock', size: 'Medium', weight: 'Bolder', wrap: true, text: toTitle(message) },
      { type: 'TextBlock', wrap: true, text: toSentence(message) },
      ...textLines(message, CHAT_LINES, CHAT_KEY_LENGTH).map(line),
    ],
  })
}

/** Returns an embed that mentions no user. In a code block only the closing backticks are special. */
function discordBody(message: AlertMessage): object {
  const lines = textLines(message, CHAT_LINES, CHAT_KEY_LENGTH)
  const list = lines
    .map(({ text }) => text)
    .join('\n')
    .replaceAll('`', "'")
  const description = `${toSentence(message)}\n\`\`\`\n${list}\n\`\`\``
  // A block of code has no links, and a link's text would have markup: it is the number of its line.
  const links = lines.flatMap(({ url }, index) => (url === undefined ? [] : ` [${index + 1}](${url})`))
  let left = DISCORD_LENGTH - description.length - LINKS.length
  const fitting = links.filter((link) => {
    left -= link.length
    return left >= 0
  })
  return {
    embeds: [
      {
        title: toTitle(message),
        description: fitting.length === 0 ? description : `${description}${LINKS}${fitting.join('')}`,
        color: message.offenders.length > 0 ? RED : GREEN,
      },
    ],
    allowed_mentions: { parse: [] },
  }
}

/**
 * Returns an event of the Events API v2. Each watch is one incident, which is resolved when its last key is.
 */
function pagerDutyEvent(message: AlertMessage, routingKey: string): object | undefined {
  const identity = { routing_key: routingKey, dedup_key: `fastify-smart-ratelimit/${message.watch}` }
  if (message.offenders.length === 0) {
    return message.remaining === 0 ? { ...identity, event_action: 'resolve' } : undefined
  }
  const offenders = listOffenders(message, PAGER_LINES)
  const resolved = listedKeys(message.resolved, PAGER_LINES)
  return {
    ...identity,
    event_action: 'trigger',
    ...(message.publicUrl !== undefined && {
      client: 'Rate limits',
      client_url: message.publicUrl,
      links: offenders.lines.map(({ key, url }) => ({ href: url, text: key })),
    }),
    payload: {
      summary: toSentence(message),
      source: 'fastify-smart-ratelimit',
      severity: 'warning',
      custom_details: {
        threshold: message.threshold,
        days: message.days,
        offenders: offenders.lines.map(({ key, blocked_count }) => ({ key, blocked_count })),
        omitted: offenders.more,
        resolved: resolved.lines,
      },
    },
  }
}
