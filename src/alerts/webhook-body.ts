import { type AlertMessage, listedKeys, listOffenders, textLines, toSentence, toTitle } from './message.js'
import type { WebhookFormat } from './webhook-format.js'

/** The documented maximum: receivers may refuse more. */
const MAX_JSON_BYTES = 20_000
/** Fits into every chat: Discord takes 4,096 characters, a text of Slack 3,000. */
const CHAT_LINES = 20
const CHAT_KEY_LENGTH = 100
/** PagerDuty takes 512 kB for an event. */
const PAGER_LINES = 100
/** Discord wants a number: the red, and the green, of the staff pages. */
const RED = 0xb42318
const GREEN = 0x067647

/**
 * Returns the body to send to a receiver; undefined where the format has no use for the message.
 *
 * Clients write the keys: where a format has markup, the keys are placed where it is not interpreted.
 */
export function toWebhookBody(message: AlertMessage, format: WebhookFormat, routingKey = ''): string | undefined {
  if (format === 'json') return jsonBody(message)
  if (format === 'slack') return JSON.stringify(slackBody(message))
  if (format === 'teams') return JSON.stringify(teamsBody(message))
  if (format === 'discord') return JSON.stringify(discordBody(message))
  const event = pagerDutyEvent(message, routingKey)
  return event === undefined ? undefined : JSON.stringify(event)
}

/** Returns the documented JSON, cut from the end until it is small enough. `resolved` is present where a key is. */
function jsonBody({ threshold, days, offenders, resolved }: AlertMessage): string {
  // Leaves room for everything except the two lists.
  let left = MAX_JSON_BYTES - 200
  function fitting<Entry>(entries: readonly Entry[]): readonly Entry[] {
    const end = entries.findIndex((entry) => {
      left -= Buffer.byteLength(JSON.stringify(entry)) + 1
      return left < 0
    })
    return end === -1 ? entries : entries.slice(0, end)
  }
  const shown = fitting(offenders)
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
  const lines = textLines(message, CHAT_LINES, CHAT_KEY_LENGTH).join('\n')
  return {
    text: `${toTitle(message)}: ${toSentence(message)}`,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: toTitle(message) } },
      { type: 'section', text: { type: 'plain_text', text: toSentence(message) } },
      { type: 'rich_text', elements: [{ type: 'rich_text_preformatted', elements: [{ type: 'text', text: lines }] }] },
    ],
  }
}

/** Returns a message of the Workflows app: one adaptive card. A `TextRun`, unlike a `TextBlock`, has no Markdown. */
function teamsBody(message: AlertMessage): object {
  const line = (text: string) => ({
    type: 'RichTextBlock',
    spacing: 'None',
    inlines: [{ type: 'TextRun', text, fontType: 'Monospace' }],
  })
  return {
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            { type: 'TextBlock', size: 'Medium', weight: 'Bolder', wrap: true, text: toTitle(message) },
            { type: 'TextBlock', wrap: true, text: toSentence(message) },
            ...textLines(message, CHAT_LINES, CHAT_KEY_LENGTH).map(line),
          ],
        },
      },
    ],
  }
}

/** Returns an embed that mentions no user. In a code block only the closing backticks are special. */
function discordBody(message: AlertMessage): object {
  const lines = textLines(message, CHAT_LINES, CHAT_KEY_LENGTH).join('\n').replaceAll('`', "'")
  return {
    embeds: [
      {
        title: toTitle(message),
        description: `${toSentence(message)}\n\`\`\`\n${lines}\n\`\`\``,
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
  const offenders = listOffenders(message.offenders, PAGER_LINES)
  const resolved = listedKeys(message.resolved, PAGER_LINES)
  return {
    ...identity,
    event_action: 'trigger',
    payload: {
      summary: toSentence(message),
      source: 'fastify-smart-ratelimit',
      severity: 'warning',
      custom_details: {
        threshold: message.threshold,
        days: message.days,
        offenders: offenders.lines,
        omitted: offenders.more,
        resolved: resolved.lines,
      },
    },
  }
}
