import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { clientLink } from '../../../src/operations/alerts/channels/message.js'
import { toWebhookBody } from '../../../src/operations/alerts/channels/webhook-body.js'
import type { WebhookFormat } from '../../../src/operations/alerts/channels/webhook-format.js'
import { createOffenderMessage, type ReportedOffenders } from '../../../src/operations/alerts/offender-message.js'
import { startAlerts } from '../../support/alerts.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const ROUTING_KEY = 'R0123456789abcdef0123456789abcde'

const ALERT: ReportedOffenders = {
  watch: 'webhook:abc',
  threshold: 5,
  days: 1,
  offenders: [
    { key: 'ip:203.0.113.7', blocked_count: 20 },
    { key: 'user:7', blocked_count: 6 },
  ],
  resolved: [],
  remaining: 2,
}
const RESOLVED: ReportedOffenders = { ...ALERT, offenders: [], resolved: ['user:7'], remaining: 0 }
const TITLE = '2 offender(s) alert'
const SENTENCE = '2 keys were refused 5 times or more in 1 day. A client has a key for each rule that refused it.'
const LINES = 'ip:203.0.113.7: 20\nuser:7: 6'

/** What clients can write that some chat or other would read as a command. */
const HOSTILE = '<!channel> <@U1|x> @everyone [link](https://evil.example) *b* `c` ```\n# d &lt; \u202e\u0000'
const HOSTILE_ALERT: ReportedOffenders = {
  ...ALERT,
  offenders: Array.from({ length: 200 }, (_, place) => ({
    key: `${HOSTILE}${'k'.repeat(200)}${place}`,
    blocked_count: 2_147_483_647,
  })),
}

function bodyOf(reported: ReportedOffenders, format: WebhookFormat): string | undefined {
  return toWebhookBody(createOffenderMessage(reported), format, ROUTING_KEY)
}

function parsed(reported: ReportedOffenders, format: WebhookFormat) {
  return JSON.parse(bodyOf(reported, format) ?? 'null')
}

/** The text of a block of rich text. */
function slackText({ elements: [list] }: { elements: { elements: { text: string }[] }[] }): string {
  return (list?.elements ?? []).map(({ text }) => text).join('')
}

const sentenceOf = (reported: ReportedOffenders) => createOffenderMessage(reported).sentence

test('an alert counts keys, and says so where one client may have several of them', () => {
  const [loudest] = ALERT.offenders
  assert.equal(
    sentenceOf({ ...ALERT, offenders: loudest === undefined ? [] : [loudest] }),
    '1 key was refused 5 times or more in 1 day.',
  )
  assert.equal(sentenceOf(ALERT), SENTENCE)
  assert.equal(sentenceOf(RESOLVED), '1 key is no longer refused 5 times or more in 1 day.')
})

describe('the body for Slack', () => {
  test('is blocks of an incoming webhook, with a text for notifications', () => {
    assert.deepEqual(parsed(ALERT, 'slack'), {
      text: `${TITLE}: ${SENTENCE}`,
      blocks: [
        { type: 'header', text: { type: 'plain_text', text: TITLE } },
        { type: 'section', text: { type: 'plain_text', text: SENTENCE } },
        {
          type: 'rich_text',
          elements: [
            {
              type: 'rich_text_preformatted',
              elements: ['ip:203.0.113.7: 20', '\n', 'user:7: 6'].map((line) => ({ type: 'text', text: line })),
            },
          ],
        },
      ],
    })
  })

  test('has keys nowhere but in rich text, which has no markup, and stays within the limits', () => {
    const { text, blocks } = parsed(HOSTILE_ALERT, 'slack')
    const [header, section, list] = blocks
    assert.doesNotMatch(JSON.stringify([text, header, section]), /[<>&@`*]/)
    assert.ok(header.text.text.length <= 150 && section.text.text.length <= 3_000)
    const lines = slackText(list)
    assert.ok(lines.length <= 3_000)
    assert.equal(lines.split('\n').length, 21)
    assert.match(lines, /\nand 180 more$/)
  })
})

describe('the body for Microsoft Teams', () => {
  test('is a message with one adaptive card', () => {
    const { type, attachments } = parsed(ALERT, 'teams')
    assert.equal(type, 'message')
    assert.equal(attachments.length, 1)
    const [{ contentType, contentUrl, content }] = attachments
    assert.deepEqual([contentType, contentUrl], ['application/vnd.microsoft.card.adaptive', null])
    const { body, ...card } = content
    assert.deepEqual(card, {
      $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
      type: 'AdaptiveCard',
      version: '1.4',
    })
    assert.deepEqual(
      body.map((block: { text?: string; inlines?: { text: string }[] }) => block.text ?? block.inlines?.[0]?.text),
      [TITLE, SENTENCE, ...LINES.split('\n')],
    )
  })

  test('has keys nowhere but in text runs, which have no Markdown, and stays below 28 kB', () => {
    const [{ content }] = parsed(HOSTILE_ALERT, 'teams').attachments
    for (const block of content.body) {
      if (block.type === 'TextBlock') assert.doesNotMatch(block.text, /[[\]*`<>]/)
      else assert.deepEqual([block.type, block.inlines[0].type], ['RichTextBlock', 'TextRun'])
    }
    assert.ok(Buffer.byteLength(bodyOf(HOSTILE_ALERT, 'teams') ?? '') < 28_000)
  })
})

describe('the body for Discord', () => {
  test('is one embed, red for an alert and green for its end', () => {
    assert.deepEqual(parsed(ALERT, 'discord'), {
      embeds: [{ title: TITLE, description: `${SENTENCE}\n\`\`\`\n${LINES}\n\`\`\``, color: 0xb42318 }],
      allowed_mentions: { parse: [] },
    })
    assert.equal(parsed(RESOLVED, 'discord').embeds[0].color, 0x067647)
  })

  test('mentions no user, has keys in a block of code that they cannot leave, and stays within the limits', () => {
    const { embeds, allowed_mentions } = parsed(HOSTILE_ALERT, 'discord')
    const [{ title, description }] = embeds
    assert.deepEqual(allowed_mentions, { parse: [] })
    assert.ok(title.length <= 256 && description.length <= 4_096)
    assert.equal(description.split('`').length - 1, 6)
    assert.match(description, /\n```$/)
  })
})

describe('the event for PagerDuty', () => {
  test('triggers one incident for all alerts of a subscription', () => {
    assert.deepEqual(parsed(ALERT, 'pagerduty'), {
      routing_key: ROUTING_KEY,
      event_action: 'trigger',
      dedup_key: 'fastify-smart-ratelimit/webhook:abc',
      payload: {
        summary: `${TITLE}: ${SENTENCE}`,
        source: 'fastify-smart-ratelimit',
        severity: 'warning',
        custom_details: { threshold: 5, days: 1, offenders: ALERT.offenders, omitted: 0, resolved: [] },
      },
    })
  })

  test('resolves it when the last key has fallen silent, and not before', () => {
    assert.deepEqual(parsed(RESOLVED, 'pagerduty'), {
      routing_key: ROUTING_KEY,
      event_action: 'resolve',
      dedup_key: 'fastify-smart-ratelimit/webhook:abc',
    })
    assert.equal(bodyOf({ ...RESOLVED, remaining: 1 }, 'pagerduty'), undefined)
  })

  test('stays within the limits', () => {
    const { payload, dedup_key } = parsed(HOSTILE_ALERT, 'pagerduty')
    assert.ok(payload.summary.length <= 1_024)
    assert.ok(parsed(ALERT, 'pagerduty').dedup_key.length <= 255 && dedup_key.length <= 255)
    assert.ok(Buffer.byteLength(bodyOf(HOSTILE_ALERT, 'pagerduty') ?? '') < 512_000)
    assert.deepEqual([payload.custom_details.offenders.length, payload.custom_details.omitted], [100, 100])
  })
})

test('what is over and what is new stay within the limits together', () => {
  const message = { ...HOSTILE_ALERT, resolved: HOSTILE_ALERT.offenders.map(({ key }) => key) }

  const [{ description }] = parsed(message, 'discord').embeds
  assert.ok(description.length <= 4_096, `${description.length} characters`)
  assert.match(description, /\nand 190 more\nResolved:\n/)
  const [, , list] = parsed(message, 'slack').blocks
  assert.ok(slackText(list).length <= 3_000)
  assert.ok(Buffer.byteLength(bodyOf(message, 'teams') ?? '') < 28_000)
})

test('no format has what hides in a key, but the JSON of this package, which has keys as they are', () => {
  for (const format of ['slack', 'teams', 'discord', 'pagerduty'] as const) {
    assert.doesNotMatch(bodyOf(HOSTILE_ALERT, format) ?? '', /\u202e|\\u0000|\\u202e(?!})/)
  }
  assert.ok(parsed(HOSTILE_ALERT, 'json').offenders[0].key.startsWith(HOSTILE))
})

test('the format of the settings is what is posted', async (t) => {
  const { url, posts } = await startWebhookReceiver(t, 202)
  const { analytics, block } = await startAlerts(t)
  await block('ip:203.0.113.7', 5)
  const settings = { alertWebhook: url, alertWebhookFormat: 'pagerduty', alertRoutingKey: ROUTING_KEY } as const
  await analytics(settings).sendOffenderAlerts({ threshold: 5 })
  const { routing_key, event_action } = JSON.parse(posts[0]?.body ?? '')

  assert.deepEqual([routing_key, event_action], [ROUTING_KEY, 'trigger'])
})

describe('where the address of the dashboard is known', () => {
  const publicUrl = 'https://example.com/ops/dashboard/'
  const LINKED: ReportedOffenders = { ...ALERT, publicUrl }
  const IP = `${publicUrl}client.html?client=ip%3A203.0.113.7&days=1`
  const USER = `${publicUrl}client.html?client=user%3A7&days=1`

  test('every format links each offender to its page', () => {
    assert.deepEqual(parsed(LINKED, 'json').offenders, [
      { key: 'ip:203.0.113.7', blocked_count: 20, url: IP },
      { key: 'user:7', blocked_count: 6, url: USER },
    ])
    const [, , list] = parsed(LINKED, 'slack').blocks
    assert.deepEqual(list.elements[0].elements, [
      { type: 'link', url: IP, text: 'ip:203.0.113.7: 20' },
      { type: 'text', text: '\n' },
      { type: 'link', url: USER, text: 'user:7: 6' },
    ])
    const [{ content }] = parsed(LINKED, 'teams').attachments
    assert.deepEqual(content.body[2].inlines[0].selectAction, { type: 'Action.OpenUrl', url: IP })
    assert.ok(parsed(LINKED, 'discord').embeds[0].description.endsWith(`\n\`\`\`\nOpen [1](${IP}) [2](${USER})`))
    const { client_url, links } = parsed(LINKED, 'pagerduty')
    assert.deepEqual([client_url, links[1]], [publicUrl, { href: USER, text: 'user:7' }])
  })

  test('nothing in a key gets out of its link, and the messages stay within the limits', () => {
    const url = clientLink(publicUrl, HOSTILE, 0.5)
    assert.match(url, /^https:\/\/example\.com\/ops\/dashboard\/search\.html\?q=[\w%.*+-]+&days=1$/)
    assert.equal(new URL(url).searchParams.get('q'), HOSTILE)
    for (const length of [10, 200]) {
      const key = (place: number) => `ip:${'<'.repeat(length / 2)}${'k'.repeat(length / 2)}${place}`
      const message = {
        ...LINKED,
        offenders: Array.from({ length: 200 }, (_, place) => ({ key: key(place), blocked_count: 2_147_483_647 })),
      }
      assert.ok(parsed(message, 'discord').embeds[0].description.length <= 4_096)
      assert.ok(Buffer.byteLength(bodyOf(message, 'teams') ?? '') < 28_000)
      assert.ok(Buffer.byteLength(bodyOf(message, 'json') ?? '') < 20_000)
      assert.ok(Buffer.byteLength(bodyOf(message, 'pagerduty') ?? '') < 512_000)
      assert.ok(slackText(parsed(message, 'slack').blocks[2]).length <= 3_000)
    }
  })
})
