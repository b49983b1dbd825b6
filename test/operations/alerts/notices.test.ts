/** Messages that a client has used a share of a window, through a real mail server and a real receiver of webhooks. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../../src/index.js'
import { WEBHOOK_FORMATS } from '../../../src/operations/alerts/channels/webhook-format.js'
import { deleteOldNotices } from '../../../src/operations/alerts/notice-table.js'
import { openDatabase } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase } from '../../support/databases.js'
import { eventually } from '../../support/eventually.js'
import { headerOf, partOf, startMailServer } from '../../support/mail-server.js'
import { NOON_MS, startNoticeApp } from '../../support/notice-app.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

const MAIL = { alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com' }
const DASHBOARD = 'https://example.com/ops/dashboard/'
/** Would break out of HTML and of Markdown, and hide what follows. */
const HOSTILE = '<b onload="x">`*_[a](http://evil.example)\u202e{{title}}'

forEachDatabase((provider) => {
  test('two apps send one message for each share through each channel', async (t) => {
    const database = await openDatabase(t, provider)
    const mailServer = await startMailServer(t)
    const receiver = await startWebhookReceiver(t)
    const settings = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url, publicUrl: DASHBOARD }
    const clock = fakeClock(NOON_MS)
    const apps = await Promise.all([1, 2].map(() => startNoticeApp(t, database, { clock, plugin: settings })))
    await Promise.all(apps.flatMap(({ use }) => [use(400), use(400), use(300)]))
    await eventually('both shares are told of', () => mailServer.mails.length === 2 && receiver.posts.length === 2)
    for (const { app } of apps) await app.close()
    assert.deepEqual([mailServer.mails.length, receiver.posts.length], [2, 2])

    const { notice } = JSON.parse(receiver.posts.find(({ body }) => body.includes('"share":80'))?.body ?? '{}')
    const { id, limit, ...told } = notice
    assert.match(id, /^[\da-f]{64}$/)
    assert.deepEqual(told, {
      client: 'user:alice',
      share: 80,
      most: 1_000,
      since: '2026-11-01T00:00:00.000Z',
      until: '2026-12-01T00:00:00.000Z',
      at: '2026-11-22T12:00:00.000Z',
      url: `${DASHBOARD}client.html?client=user%3Aalice&days=1`,
    })
    const count = Number(limit.count).toLocaleString('en-US')
    assert.deepEqual(limit, {
      policy: 'tokens',
      unit: 'tokens',
      rate: '1000/month',
      window: 'month',
      count: limit.count,
    })
    const raw = mailServer.mails.find(({ raw }) => raw.includes('Notice: 80%'))?.raw ?? ''
    assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] Notice: 80% of a limit is used')
    assert.equal(
      partOf(raw, 'text/plain').replaceAll('\r\n', '\n').trimEnd(),
      [
        `A client has used ${count} of the 1,000 that a limit allows it until 2026-12-01 00:00:00 UTC.`,
        '',
        '  Client: user:alice',
        '  Policy: tokens',
        '  Rate: 1000/month (tokens)',
        `  Used: ${count} of 1,000`,
        '  Notice at: 80%',
        '  Since: 2026-11-01 00:00:00 UTC',
        '  Until: 2026-12-01 00:00:00 UTC',
        '',
        `Open the client: ${told.url}`,
      ].join('\n'),
    )
  })

  test('what no server could send is sent by a run of alerts, once, and each failing channel is logged once', async (t) => {
    const database = await openDatabase(t, provider)
    const mailServer = await startMailServer(t)
    const receiver = await startWebhookReceiver(t, 400, 400, 400, 200)
    const clock = fakeClock(NOON_MS)
    const settings: RateLimitOptions = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url }
    const { app, use, told, log } = await startNoticeApp(t, database, { clock, plugin: settings })
    await use(800, 'a')
    await eventually('the first message has failed', () => log.length === 1 && receiver.posts.length === 1)
    await use(800, 'b')
    await eventually('both have failed', () => receiver.posts.length === 3 && mailServer.mails.length === 2)
    assert.equal(told.length, 2)
    assert.deepEqual(
      log.map(({ msg }) => msg),
      ['Rate limit notice by webhook failed: status 400'],
    )
    const run = () => app.smartRateLimit.analytics.sendIncidentAlerts()
    await eventually('the run finds what is not being sent', async () => {
      return (await run()).channels.webhook?.told === 2
    })
    assert.deepEqual((await run()).channels, { email: { told: 0 }, webhook: { told: 0 } })
    assert.deepEqual([mailServer.mails.length, receiver.posts.length], [2, 5])
    const clients = receiver.posts.slice(-2).map(({ body }) => JSON.parse(body).notice.client)
    assert.deepEqual(clients.toSorted(), ['user:a', 'user:b'])
  })

  test('however many notices three apps make at once, each is told of once, also after a message that is refused', async (t) => {
    const database = await openDatabase(t, provider)
    const receiver = await startWebhookReceiver(t, 200, 200, 400, 200)
    const clock = fakeClock(NOON_MS)
    const plugin = { alertWebhook: receiver.url }
    const apps = await Promise.all([1, 2, 3].map(() => startNoticeApp(t, database, { clock, plugin })))
    const users = Array.from({ length: 90 }, (_, index) => `u${index}`)
    await Promise.all(users.map((user, index) => apps[index % apps.length]?.use(800, user)))
    const delivered = () => receiver.posts.filter((_, index) => index !== 2)
    await eventually('all messages are sent', () => new Set(delivered().map(({ body }) => body)).size === users.length)
    for (const { app } of apps) await app.close()
    const clients = delivered().map(({ body }) => JSON.parse(body).notice.client)
    assert.deepEqual(clients.toSorted(), users.map((user) => `user:${user}`).toSorted())
  })

  test('two runs of alerts at once tell of twenty notices each, and the next one of the others', async (t) => {
    const database = await openDatabase(t, provider)
    const receiver = await startWebhookReceiver(t)
    const clock = fakeClock(NOON_MS)
    const server = await startNoticeApp(t, database, { clock })
    await Promise.all(Array.from({ length: 45 }, (_, index) => server.use(800, `u${index}`)))
    await server.app.close()
    const { app } = await startNoticeApp(t, database, { clock, plugin: { alertWebhook: receiver.url } })
    const run = async () => (await app.smartRateLimit.analytics.sendIncidentAlerts()).channels.webhook
    assert.deepEqual(await Promise.all([run(), run()]), [{ told: 20 }, { told: 20 }])
    assert.deepEqual(await run(), { told: 5 })
    assert.equal(new Set(receiver.posts.map(({ body }) => JSON.parse(body).notice.id)).size, 45)
  })

  test('a server deletes the notices of windows that are over, a day after they were made at the earliest', async (t) => {
    const database = await openDatabase(t, provider)
    const clock = fakeClock(NOON_MS)
    const month = await startNoticeApp(t, database, { clock })
    const minute = await startNoticeApp(t, database, { clock, limit: { name: 'minute', rate: '10/m' } })
    await month.use(800)
    await minute.use(10)
    await month.app.close()
    await minute.app.close()
    const left = async (afterMs: number) => {
      await deleteOldNotices(database.database, NOON_MS + afterMs, 100)
      const sql = `SELECT id FROM ${database.database.dialect.table('rate_limit_notice')}`
      return (await database.database.query(sql)).length
    }
    assert.equal(await left(23 * HOUR_MS), 3)
    assert.equal(await left(25 * HOUR_MS), 1)
    assert.equal(await left(9 * 24 * HOUR_MS), 0)
  })

  test('a server without channels leaves its notices to the runs of alerts, which tell of those of the last day', async (t) => {
    const database = await openDatabase(t, provider)
    const receiver = await startWebhookReceiver(t)
    const clock = fakeClock(NOON_MS)
    const server = await startNoticeApp(t, database, { clock })
    await server.use(800, 'a')
    await eventually('it is told', () => server.told.length === 1)
    clock.advance(24 * HOUR_MS)
    await server.use(1_000, 'b')
    await server.app.close()
    const runner = await startNoticeApp(t, database, { clock, plugin: { alertWebhook: receiver.url } })
    const run = () => runner.app.smartRateLimit.analytics.sendIncidentAlerts()
    const told = (await Promise.all([run(), run()])).map(({ channels }) => channels.webhook?.told ?? 0)
    assert.equal((told[0] ?? 0) + (told[1] ?? 0), 2)
    assert.equal(receiver.posts.length, 2)
    const shares = receiver.posts.map(({ body }) => JSON.parse(body).notice)
    assert.deepEqual(shares.map(({ client, share }) => [client, share]).toSorted(), [
      ['user:b', 100],
      ['user:b', 80],
    ])
  })
})

test('nothing that a client writes gets into HTML or markup, in any format', async (t) => {
  const mailServer = await startMailServer(t)
  for (const alertWebhookFormat of WEBHOOK_FORMATS) {
    const receiver = await startWebhookReceiver(t)
    const { app, use } = await startNoticeApp(t, null, {
      plugin: {
        ...MAIL,
        smtpUrl: mailServer.url,
        alertWebhook: receiver.url,
        alertWebhookFormat,
        alertRoutingKey: 'R0UTING-KEY-of-a-test',
        publicUrl: DASHBOARD,
        user: () => ({ id: HOSTILE }),
      },
    })
    await use(800)
    await app.close()
    const [{ body } = { body: '{}' }] = receiver.posts
    const message = JSON.parse(body)
    assert.equal(receiver.posts.length, 1, alertWebhookFormat)
    if (alertWebhookFormat === 'json') assert.equal(message.notice.client, `user:${HOSTILE}`)
    else assert.doesNotMatch(body, /\u202e/)
    if (alertWebhookFormat === 'discord') {
      const [{ title, description }] = message.embeds
      const [before, list, after] = description.split('```')
      assert.match(list, /evil\.example/)
      assert.doesNotMatch(title + before + after, /`|\]\((?!https:\/\/example\.com\/ops\/dashboard\/)/)
    }
    if (alertWebhookFormat === 'pagerduty') {
      assert.equal(message.payload.severity, 'info')
      assert.match(message.dedup_key, /^fastify-smart-ratelimit\/notice\/[\da-f]{64}$/)
      assert.doesNotMatch(message.payload.summary, /evil/)
    }
  }
  const [{ raw = '' } = {}] = mailServer.mails
  assert.doesNotMatch(partOf(raw, 'text/html'), /<b |\u202e/)
  assert.match(partOf(raw, 'text/html'), /&lt;b onload/)
})

test('without a database a message that fails is logged, and the next one is sent', async (t) => {
  const receiver = await startWebhookReceiver(t, 400, 200)
  const { app, use, log } = await startNoticeApp(t, null, { plugin: { alertWebhook: receiver.url } })
  await use(800, 'a')
  await use(800, 'b')
  await app.close()
  assert.equal(receiver.posts.length, 2)
  assert.deepEqual(
    log.map(({ msg }) => msg),
    ['Rate limit notice by webhook failed: status 400'],
  )
})
