/** The bodies of webhooks for a message about one thing. Texts that others wrote stand where no format has markup. */
import type { FactsMessage } from './facts-message.js'
import { teamsCard } from './teams-card.js'
import { GREEN, RED, type WebhookFormat } from './webhook-format.js'

/** The colour of messages that are neither an alarm nor its end. */
const BLUE = 0x1a5fb4
/** PagerDuty cuts longer summaries. */
const MAX_SUMMARY = 1_024

export function toFactsBody(message: FactsMessage, format: WebhookFormat, routingKey: string): string {
  if (format === 'json') return JSON.stringify(message.json)
  if (format === 'slack') return JSON.stringify(slackBody(message))
  if (format === 'teams') return JSON.stringify(teamsBody(message))
  if (format === 'discord') return JSON.stringify(discordBody(message))
  return JSON.stringify(pagerDutyEvent(message, routingKey))
}

function factLines({ facts }: FactsMessage): string[] {
  return facts.map(({ name, value }) => `${name}: ${value}`)
}

function slackBody(message: FactsMessage): object {
  const { title, sentence, links } = message
  const lines = factLines(message)
  const list = { type: 'rich_text_preformatted', elements: [{ type: 'text', text: lines.join('\n') }] }
  const anchors = links.flatMap(({ text, url }, index) => [
    ...(index > 0 ? [{ type: 'text', text: ' · ' }] : []),
    { type: 'link', url, text },
  ])
  const elements = [
    ...(lines.length > 0 ? [list] : []),
    ...(anchors.length > 0 ? [{ type: 'rich_text_section', elements: anchors }] : []),
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

/** A `TextRun`, unlike a `TextBlock`, has no Markdown. */
function teamsBody(message: FactsMessage): object {
  const { title, sentence, links } = message
  return teamsCard({
    body: [
      { type: 'TextBlock', size: 'Medium', weight: 'Bolder', wrap: true, text: title },
      { type: 'TextBlock', wrap: true, text: sentence },
      ...factLines(message).map((text) => ({
        type: 'RichTextBlock',
        spacing: 'None',
        inlines: [{ type: 'TextRun', text, fontType: 'Monospace' }],
      })),
    ],
    actions: links.map(({ text, url }) => ({ type: 'Action.OpenUrl', title: text, url })),
  })
}

/** A code block has no special characters but the closing backticks. */
function discordBody(message: FactsMessage): object {
  const { title, sentence, links, kind } = message
  const list = factLines(message).join('\n').replaceAll('`', "'")
  const description = [
    sentence,
    ...(list === '' ? [] : [`\`\`\`\n${list}\n\`\`\``]),
    ...(links.length === 0 ? [] : [links.map(({ text, url }) => `[${text}](${url})`).join(' · ')]),
  ]
  return {
    embeds: [
      {
        title,
        description: description.join('\n'),
        color: { alarm: RED, notice: BLUE, over: GREEN, test: BLUE }[kind],
      },
    ],
    allowed_mentions: { parse: [] },
  }
}

/** The subject of each message is an incident of its own, which ends with the message that it is over. */
function pagerDutyEvent(message: FactsMessage, routingKey: string): object {
  const { id, title, sentence, facts, links, kind } = message
  const identity = { routing_key: routingKey, dedup_key: `fastify-smart-ratelimit/${id}` }
  if (kind === 'over') return { ...identity, event_action: 'resolve' }
  return {
    ...identity,
    event_action: 'trigger',
    links: links.map(({ text, url }) => ({ href: url, text })),
    payload: {
      summary: `${title}: ${sentence}`.slice(0, MAX_SUMMARY),
      source: 'fastify-smart-ratelimit',
      severity: kind === 'alarm' ? 'warning' : 'info',
      custom_details: Object.fromEntries(facts.map(({ name, value }) => [name, value])),
    },
  }
}
