/** Alerts about clients that hammer a limit, by the settings of the server alone. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAnalytics } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'

import { fakeClock } from '../support/clock.js'
import { headerOf, partOf, startMailServer } from '../support/mail-server.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

test('a client that was refused often is in one mail and one post, with the latest requests', async (t) => {
  const clock = fakeClock()
  const database = await openDatabase(t, 'sqlite', clock)
  const { url: smtpUrl, mails } = await startMailServer(t)
  const receiver = await startWebhookReceiver(t)
  const { app, statuses } = await startApp(t, {
    database,
    clock,
    plugin: {
      logEvents: true,
      middleware: { defaultRate: '2/m' },
      alertThreshold: 5,
      alertEmails: ['ops@example.com'],
      defaultFromEmail: 'alerts@example.com',
      smtpUrl,
      alertWebhook: receiver.url,
    },
  })
  await statuses(22, '/', { from: '203.0.113.7' })
  await statuses(6, '/', { from: '203.0.113.8' })
  const offenders = [{ key: 'ip:203.0.113.7', blocked_count: 20 }]

  assert.deepEqual(await app.smartRateLimit.analytics.sendOffenderAlerts(), {
    enabled: true,
    threshold: 5,
    days: 1,
    offenders,
    channels: { email: { sent: true, to: ['ops@example.com'] }, webhook: { sent: true } },
  })
  assert.equal(mails.length, 1)
  const [{ raw = '' } = {}] = mails
  assert.ok(raw.includes('ip:203.0.113.7'))
  assert.doesNotMatch(headerOf(raw, 'Subject') ?? '', /203/)
  assert.match(partOf(raw, 'text/plain'), /^ {2}ip:203\.0\.113\.7: 20\r?$/m)
  assert.deepEqual(
    receiver.posts.map(({ body }) => JSON.parse(body)),
    [{ threshold: 5, days: 1, offenders }],
  )
})

test('arguments of a call go before the settings, and no recipients are no channel', async (t) => {
  const [usual, other] = [await startWebhookReceiver(t), await startWebhookReceiver(t)]
  const { app, statuses } = await startApp(t, {
    database: 'sqlite',
    plugin: {
      logEvents: true,
      middleware: { defaultRate: '1/m' },
      alertThreshold: 50,
      alertEmails: ['ops@example.com'],
      alertWebhook: usual.url,
    },
  })
  await statuses(4, '/')
  const { sendOffenderAlerts } = app.smartRateLimit.analytics
  assert.deepEqual((await sendOffenderAlerts()).offenders, [])
  const { channels } = await sendOffenderAlerts({ threshold: 3, emailTo: [], webhookUrl: other.url })

  assert.deepEqual(channels, { webhook: { sent: true } })
  assert.deepEqual([usual.posts.length, other.posts.length], [0, 1])
})

test('a script without a server has the same alerts, and hears of failures', async (t) => {
  const clock = fakeClock()
  const { url, events, client } = await openDatabase(t, 'sqlite', clock)
  const receiver = await startWebhookReceiver(t, 404)
  await client.rateLimitEvent.create({
    data: {
      timestamp: new Date(clock.now()),
      key: 'user:7',
      path: '/',
      method: 'GET',
      allowed: false,
      count: 2,
      limit: 1,
    },
  })
  const messages: string[] = []
  const analytics = createAnalytics({
    database: url,
    events,
    clock,
    alertThreshold: 1,
    alertWebhook: receiver.url,
    log: { error: (_details, message) => messages.push(message) },
  })
  atEnd(t, () => analytics.close())
  const { channels } = await analytics.sendOffenderAlerts()

  assert.deepEqual(channels, { webhook: { sent: false, error: 'status 404' } })
  assert.deepEqual(messages, ['Rate limit alert by webhook failed: status 404'])
})
