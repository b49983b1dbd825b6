/** The bodies of webhooks. Texts that others wrote stand where the format has no markup. */
import { type Message, shortened } from './message.js'
import type { WebhookFormat } from './webhook-format.js'

/** Fits into every chat: Discord takes 4,096 characters, a text of Slack 3,000. */
const CHAT_LINES = 20
const CHAT_KEY_LENGTH = 100
/** The longest address of a line: with twenty of them a message stays within the limits of every chat. */
const MAX_LINE_URL = 400
/** The longest description of an embed of Discord. */
const DISCORD_LENGTH = 4_096
const LINKS = '\nOpen'
/** PagerDuty cuts longer summaries. */
const MAX_SUMMARY = 1_024
/** Discord wants a number: the red, the blue and the green of the staff pages. */
const [RED, BLUE, GREEN] = [0xb42318, 0x1a5fb4, 0x067647]
const COLOURS = { alarm: RED, notice: BLUE, less: GREEN, over: GREEN, test: BLUE } as const

/** Returns the body to send to a receiver; undefined where the format has no use for the message. */
export function toWebhookBody(message: Message, format: WebhookFormat, routingKey = ''): string | undefined {
  if (format === 'json') return JSON.stringify(message.json)
  if (format === 'slack') return JSON.stringify(slackBody(message))
  if (format === 'teams') return JSON.stringify(teamsBody(message))
  if (format === 'discord') return JSON.stringify(discordBody(message))
  const event = pagerDutyEvent(message, routingKey)
  return event && JSON.stringify(event)
}

interface Line {
  readonly text: string
  readonly url?: string | undefined
}

/** Returns the facts, and those that are over, as lines of a chat. Two lists share the lines equally. */
export function chatLines({ facts, more = 0, over = [], moreOver = 0 }: Message): Line[] {
  const max = facts.length > 0 && over.length > 0 ? CHAT_LINES / 2 : CHAT_LINES
  const left = more + Math.max(0, facts.length - max)
  const leftOver = moreOver + Math.max(0, over.length - max)
  const notes = [
    ...(left > 0 ? [`and ${left} more`] : []),
    ...(over.length > 0 ? ['Resolved:', ...over.slice(0, max).map((name) => shortened(name, CHAT_KEY_LENGTH))] : []),
    ...(leftOver > 0 ? [`and ${leftOver} more`] : []),
  ]
  return [
    ...facts.slice(0, max).map(({ name, value, url = '' }) => ({
      text: `${shortened(name, CHAT_KEY_LENGTH)}: ${value}`,
      url: url !== '' && url.length <= MAX_LINE_URL ? url : undefined,
    })),
    ...notes.map((text) => ({ text })),
  ]
}

/** Returns an incoming webhook: a fallback for notifications, and blocks. Texts inside `rich_text` have no markup. */
function slackBody(message: Message): object {
  const { title, sentence, links } = message
  const element = ({ text, url }: Line) => (url === undefined ? { type: 'text', text } : { type: 'link', url, text })
  const joined = (lines: readonly Line[], separator: string) =>
    lines.flatMap((line, index) => [...(index > 0 ? [{ type: 'text', text: separator }] : []), element(line)])
  const lines = joined(chatLines(message), '\n')
  const elements = [
    ...(lines.length > 0 ? [{ type: 'rich_text_preformatted', elements: lines }] : []),
    ...(links.length > 0 ? [{ type: 'rich_text_section', elements: joined(links, ' · ') }] : []),
  ]
  return {
    text: `${title}: ${sentence}`,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: title } },
      { type: 'section', text: { type: 'plain_text', text: sentence } },
      ...(elements.length > 0 ? [{ type: 'rich_text', elements }] : []),
    ],
  }
}

/** Returns a message of the Workflows app: one adaptive card. A `TextRun`, unlike a `TextBlock`, has no Markdown. */
function teamsBody(message: Message): object {
  const { title, sentence, links } = message
  const body = [
    { type: 'TextBlock', size: 'Medium', weight: 'Bolder', wrap: true, text: title },
    { type: 'TextBlock', wrap: true, text: sentence },
    ...chatLines(message).map(({ text, url }) => ({
      type: 'RichTextBlock',
      spacing: 'None',
      inlines: [
        { type: 'TextRun', text, fontType: 'Monospace', ...(url && { selectAction: { type: 'Action.OpenUrl', url } }) },
      ],
    })),
  ]
  const actions = links.map(({ text, url }) => ({ type: 'Action.OpenUrl', title: text, url }))
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
          body,
          ...(actions.length > 0 && { actions }),
        },
      },
    ],
  }
}

/** Returns an embed that mentions no user. In a code block only the closing backticks are special. */
function discordBody(message: Message): object {
  const { title, sentence, links, kind } = message
  const lines = chatLines(message)
  const list = lines.map(({ text }) => text.replaceAll('`', "'")).join('\n')
  const text = list === '' ? sentence : `${sentence}\n\`\`\`\n${list}\n\`\`\``
  const anchors = links.map(({ text: name, url }) => `[${name}](${url})`).join(' · ')
  const description = anchors === '' ? text : `${text}\n${anchors}`
  // A block of code has no links, and a link's text would have markup: it is the number of its line.
  const numbered = lines.flatMap(({ url }, index) => (url === undefined ? [] : ` [${index + 1}](${url})`))
  let left = DISCORD_LENGTH - description.length - LINKS.length
  const fitting = numbered.filter((link) => {
    left -= link.length
    return left >= 0
  })
  const opened = fitting.length === 0 ? '' : `${LINKS}${fitting.join('')}`
  return {
    embeds: [{ title, description: `${description}${opened}`, color: COLOURS[kind] }],
    allowed_mentions: { parse: [] },
  }
}

/** Returns an event of the Events API v2. What shares an id is one incident there, which the message that it is over ends. */
function pagerDutyEvent(message: Message, routingKey: string): object | undefined {
  const { id, kind, title, sentence, facts, links, details, publicUrl } = message
  if (kind === 'less') return undefined
  const identity = { routing_key: routingKey, dedup_key: `fastify-smart-ratelimit/${id}` }
  if (kind === 'over') return { ...identity, event_action: 'resolve' }
  const anchors = [
    ...facts.flatMap(({ name, url }) => (url === undefined ? [] : { href: url, text: name })),
    ...links.map(({ text, url }) => ({ href: url, text })),
  ]
  return {
    ...identity,
    event_action: 'trigger',
    ...(publicUrl !== undefined && { client: 'Rate limits', client_url: publicUrl }),
    ...(anchors.length > 0 && { links: anchors }),
    payload: {
      summary: `${title}: ${sentence}`.slice(0, MAX_SUMMARY),
      source: 'fastify-smart-ratelimit',
      severity: kind === 'alarm' ? 'warning' : 'info',
      custom_details: details ?? Object.fromEntries(facts.map(({ name, value }) => [name, value])),
    },
  }
}
