/** Alerts by incident, through a real mail server and a real receiver of webhooks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { AlertSettingOptions } from '../../../src/operations/alerts/channels/channels.js'
import { WEBHOOK_FORMATS } from '../../../src/operations/alerts/channels/webhook-format.js'
import { SHORT_TIMES, startAlerts } from '../../support/alerts.js'
import { forAnyDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { headerOf, partOf, startMailServer } from '../../support/mail-server.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const MAIL: AlertSettingOptions = { alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com' }
const DASHBOARD = 'https://example.com/ops/dashboard/'
/** Breaks out of a header, of HTML, of Markdown, and hides what follows. */
const HOSTILE = 'user:x\r\nBcc: all@example.com\r\n\r\n<b onload="x">`*_[a](http://evil.example)\u202e'

forAnyDatabase((_provider, open) => {
  async function start(t: Parameters<typeof startAlerts>[0]) {
    const run = await startAlerts(t, open)
    /** Puts refusals of a client into the log. */
    const refuse = (client: string, count = 60, { path = '/search', policy = 'search', denied = 0 } = {}) =>
      logRows(
        run.database.database,
        Array.from({ length: count + denied }, (_, index) => {
          const outcome = index < count ? ('over_limit' as const) : ('denied' as const)
          const row = { timestampMs: run.clock.now(), client, key: client.slice(0, 200), path, allowed: false }
          return { ...row, policy, ruleName: policy, outcome }
        }),
      )
    return { ...run, refuse, send: (options: AlertSettingOptions) => run.analytics(options).sendIncidentAlerts() }
  }
  const toldBy = ({ channels }: Awaited<ReturnType<Awaited<ReturnType<typeof start>>['send']>>) => channels

  test('an incident is one message through each channel, with its numbers and links, and never again', async (t) => {
    const mailServer = await startMailServer(t)
    const receiver = await startWebhookReceiver(t)
    const { refuse, send, clock } = await start(t)
    const settings = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url, publicUrl: DASHBOARD }
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 0 }, webhook: { told: 0 } })
    await refuse('ip:203.0.113.8', 66, { path: '/login', policy: 'login' })
    await refuse('ip:203.0.113.7', 1_234, { denied: 3 })

    const { incidents, channels } = await send(settings)
    assert.deepEqual(channels, { email: { told: 1 }, webhook: { told: 1 } })
    const [incident] = incidents
    const [{ raw = '', to } = {}] = mailServer.mails
    assert.deepEqual([mailServer.mails.length, to], [1, ['ops@example.com']])
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] Incident: 203.0.113.0/24')
    const since = incident?.from.slice(0, 16)
    const time = `since=${since?.replace(':', '%3A')}Z`
    const link = `${DASHBOARD}incident.html?id=${incident?.id}&${time}`
    const when = `${since?.replace('T', ' ')} UTC`
    assert.equal(
      partOf(raw, 'text/plain').replaceAll('\r\n', '\n').trimEnd(),
      [
        `1,300 requests have been refused since ${when}, and 3 denied. The incident is still open.`,
        '',
        '  Network: 203.0.113.0/24',
        `  Since: ${when}`,
        '  Clients: 2',
        '  Refused (over a limit): 1,300',
        '  Denied (by an operator or a list): 3',
        '  Policies: search, login',
        `  Paths: ${incident?.paths.join(', ')}`,
        '',
        `Open the incident: ${link}`,
        `Open the network: ${DASHBOARD}client.html?client=ip%3A203.0.113.0%2F24&${time}`,
      ].join('\n'),
    )
    assert.deepEqual(
      receiver.posts.map(({ body }) => JSON.parse(body)),
      [{ incident: { ...incident, url: link } }],
    )

    for (const laterMs of [MINUTE_MS, 10 * MINUTE_MS]) {
      clock.advance(laterMs)
      await refuse('ip:203.0.113.7', 200)
      // Each call is that of another process.
      assert.deepEqual(toldBy(await send(settings)), { email: { told: 0 }, webhook: { told: 0 } })
    }
    await refuse('user:7')
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 1 }, webhook: { told: 1 } })
    assert.deepEqual([mailServer.mails.length, receiver.posts.length], [2, 2])
  })

  test('nothing that a client writes gets into a header, into HTML, or into markup', async (t) => {
    const mailServer = await startMailServer(t)
    const receivers = await Promise.all(['slack', 'teams', 'discord'].map(() => startWebhookReceiver(t)))
    const { refuse, send } = await start(t)
    await refuse(HOSTILE, 60, { path: '/<script>`{{title}}' })
    const formats = ['slack', 'teams', 'discord'] as const
    const settings = { ...MAIL, smtpUrl: mailServer.url, publicUrl: DASHBOARD }
    for (const [index, alertWebhookFormat] of formats.entries()) {
      await send({ ...settings, alertWebhook: receivers[index]?.url, alertWebhookFormat })
    }

    const [{ raw = '', to } = {}] = mailServer.mails
    assert.deepEqual([mailServer.mails.length, to], [1, ['ops@example.com']])
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] Incident: a user')
    assert.equal(headerOf(raw, 'Bcc'), undefined)
    const html = partOf(raw, 'text/html')
    assert.doesNotMatch(html, /<b |<script|\u202e/)
    assert.match(html, /&lt;script&gt;&#x60;\{\{title\}\}/)
    assert.match(partOf(raw, 'text/plain'), /Client: user:x\\u\{d\}\\u\{a\}Bcc: all@example\.com/)
    const [slack, teams, discord] = receivers.map(({ posts }) => JSON.parse(posts[0]?.body ?? '{}'))
    const [header, section, rich] = slack.blocks
    assert.doesNotMatch(JSON.stringify([slack.text, header, section]), /evil|Bcc/)
    assert.match(JSON.stringify(rich.elements[0]), /"rich_text_preformatted".*evil/)
    const blocks: { type: string }[] = teams.attachments[0].content.body
    assert.doesNotMatch(JSON.stringify(blocks.filter(({ type }) => type === 'TextBlock')), /evil|Bcc/)
    assert.match(JSON.stringify(blocks.filter(({ type }) => type === 'RichTextBlock')), /evil/)
    const [{ title, description }] = discord.embeds
    assert.equal(title, 'Incident: a user')
    const parts = description.split('```')
    assert.equal(parts.length, 3)
    assert.match(parts[1], /evil/)
    assert.doesNotMatch(parts[0] + parts[2], /Bcc:|`|\]\((?!https:\/\/example\.com\/ops\/dashboard\/)/)
  })

  test('a channel that fails is told by a later run, by another process too, and the other one not again', async (t) => {
    const mailServer = await startMailServer(t)
    const receiver = await startWebhookReceiver(t, 404, 404, 200)
    const { refuse, send, log, clock } = await start(t)
    const settings = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url }
    await refuse('user:7')
    const failed = { told: 0, error: 'status 404' }
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 1 }, webhook: failed })
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 0 }, webhook: failed })
    assert.equal(log.at(-1)?.message, 'Rate limit alert by webhook failed: status 404')
    // The incident has ended by then.
    clock.advance(3 * HOUR_MS)
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 0 }, webhook: { told: 1 } })
    assert.equal(JSON.parse(receiver.posts[2]?.body ?? '').incident.state, 'over')
    assert.deepEqual(toldBy(await send(settings)), { email: { told: 0 }, webhook: { told: 0 } })
    assert.deepEqual([mailServer.mails.length, receiver.posts.length], [1, 3])
  })

  test('of processes that run at once, one sends each message', async (t) => {
    const mailServer = await startMailServer(t)
    const receiver = await startWebhookReceiver(t)
    const { refuse, send } = await start(t)
    for (const user of [1, 2, 3]) await refuse(`user:${user}`)
    const settings = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url }
    await Promise.all([send(settings), send(settings), send(settings)])
    await send(settings)
    assert.equal(mailServer.mails.length, 3)
    const scopes = receiver.posts.map(({ body }) => JSON.parse(body).incident.scope)
    assert.deepEqual(scopes.toSorted(), ['user:1', 'user:2', 'user:3'])
  })

  test('a process that died while it sent silences no incident', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { refuse, send, clock, database } = await start(t)
    const settings = { alertWebhook: receiver.url }
    await refuse('user:7')
    await send(settings)
    const { dialect } = database.database
    await database.database.execute(
      `UPDATE ${dialect.table('rate_limit_alert')} SET notified_at = NULL, claim = 'dead', claimed_until = ${dialect.fromMs('$1')}`,
      [clock.now() + 2 * MINUTE_MS],
    )
    await send(settings)
    assert.equal(receiver.posts.length, 1)
    clock.advance(3 * MINUTE_MS)
    await send(settings)
    assert.equal(receiver.posts.length, 2)
  })

  test('a message that is always refused holds up no other, and a channel that is away not the run', async (t) => {
    const poisoned = await startWebhookReceiver(t, 400, 200)
    const away = await startWebhookReceiver(t, 400)
    const { refuse, send } = await start(t)
    for (let user = 0; user < 25; user++) await refuse(`user:${user}`, 100 - user)
    assert.deepEqual(toldBy(await send({ alertWebhook: poisoned.url })), {
      webhook: { told: 20, error: 'status 400' },
    })
    assert.deepEqual(toldBy(await send({ alertWebhook: poisoned.url })), { webhook: { told: 5 } })
    assert.deepEqual(toldBy(await send({ alertWebhook: away.url })), { webhook: { told: 0, error: 'status 400' } })
    assert.equal(away.posts.length, 3)
  })

  test('other recipients are told of the same incident, and changed settings beside them change nothing', async (t) => {
    const [first, second] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
    const { refuse, send } = await start(t)
    await refuse('user:7')
    await send({ alertWebhook: first.url })
    await send({ alertWebhook: first.url, alertThreshold: 7, publicUrl: DASHBOARD })
    await send({ alertWebhook: second.url })
    assert.deepEqual([first.posts.length, second.posts.length], [1, 1])
  })

  test('with alertResolved an incident that was told is told to be over, once', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const pager = await startWebhookReceiver(t)
    const { refuse, send, clock } = await start(t)
    const resolved = { alertResolved: true, alertCooldown: 60 }
    const chat = { ...resolved, alertWebhook: receiver.url }
    const paging = {
      ...resolved,
      alertWebhook: pager.url,
      alertWebhookFormat: 'pagerduty' as const,
      alertRoutingKey: 'k'.repeat(32),
    }
    await refuse('user:7')
    for (const settings of [chat, paging]) await send(settings)
    await refuse('user:8')
    clock.advance(3 * HOUR_MS)
    for (const settings of [chat, paging, chat, paging]) await send(settings)
    const told = receiver.posts.map(({ body }) => JSON.parse(body).incident)
    assert.deepEqual(
      told.map(({ scope, state }) => `${scope} ${state}`).toSorted(),
      // That of the second user was over when it was first told.
      ['user:7 open', 'user:7 over', 'user:8 over'],
    )
    const events = pager.posts.map(({ body }) => JSON.parse(body))
    // Nobody is paged for what was over when it was first told.
    assert.deepEqual(events.map(({ event_action }) => event_action).toSorted(), ['resolve', 'resolve', 'trigger'])
    const [trigger] = events
    assert.equal(trigger.dedup_key, `fastify-smart-ratelimit/incident/${told[0].id}`)
    assert.equal(trigger.payload.custom_details.Client, 'user:7')
    assert.equal(events.filter(({ dedup_key }) => dedup_key === trigger.dedup_key).length, 2)
  })

  test('an incident that is over when it is first told is one message that says so, and leaves nothing open in PagerDuty', async (t) => {
    const mailServer = await startMailServer(t)
    const { refuse, send, clock } = await start(t)
    await refuse('ip:203.0.113.7')
    clock.advance(3 * HOUR_MS)
    const mail = { ...MAIL, smtpUrl: mailServer.url }
    for (const _run of [1, 2]) await send(mail)
    const [{ raw = '' } = {}, ...more] = mailServer.mails
    assert.deepEqual(more, [])
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] Incident over: 203.0.113.7')
    assert.match(
      partOf(raw, 'text/plain'),
      /^60 requests were refused between .* UTC and .* UTC\. The incident is over\./,
    )

    for (const alertWebhookFormat of WEBHOOK_FORMATS) {
      const receiver = await startWebhookReceiver(t)
      const alertRoutingKey = alertWebhookFormat === 'pagerduty' ? 'k'.repeat(32) : undefined
      const settings = { alertWebhook: receiver.url, alertWebhookFormat, alertRoutingKey }
      for (const _run of [1, 2]) await send(settings)
      const [{ body = '' } = {}, ...others] = receiver.posts
      assert.deepEqual(others, [], alertWebhookFormat)
      // Without a trigger PagerDuty has nothing to end, and pages nobody.
      if (alertWebhookFormat === 'pagerduty') assert.equal(JSON.parse(body).event_action, 'resolve')
      else if (alertWebhookFormat === 'json') assert.equal(JSON.parse(body).incident.state, 'over')
      else assert.match(body, /Incident over: 203\.0\.113\.7.*The incident is over\./, alertWebhookFormat)
    }
  })

  test('the result of the run is stored for the page of alerts, and a receiver that hangs is given up', async (t) => {
    const receiver = await startWebhookReceiver(t, 'hang')
    const { refuse, analytics, database } = await start(t)
    await refuse('user:7')
    const { sendIncidentAlerts } = analytics({ alertWebhook: receiver.url }, SHORT_TIMES)
    await sendIncidentAlerts()
    const rows = await database.database.query(
      `SELECT kind, told, error FROM ${database.database.dialect.table('rate_limit_alert_run')}`,
    )
    assert.deepEqual(rows, [{ kind: 'incidents', told: 0, error: 'no answer within 0.25 s' }])
  })

  test('where its memory cannot be used nothing is sent, and the result and the log say why', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { refuse, send, database, log } = await start(t)
    await refuse('user:7')
    await database.database.execute(`DROP TABLE ${database.database.dialect.table('rate_limit_alert')}`)
    const { webhook } = toldBy(await send({ alertWebhook: receiver.url }))
    assert.equal(webhook?.told, 0)
    assert.match(webhook?.error ?? '', /A table is missing/)
    assert.match(log[0]?.message ?? '', /^Rate limit alert by webhook failed: A table is missing/)
    assert.equal(receiver.posts.length, 0)
  })

  test('without a channel nothing is read or sent', async (t) => {
    const { refuse, send } = await start(t)
    await refuse('user:7')
    assert.deepEqual(await send({}), { incidents: [], channels: {} })
  })
})
