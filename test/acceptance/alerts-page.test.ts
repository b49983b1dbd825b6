/** The page of the alerts, as a browser without JavaScript uses it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { startApp } from '../support/build-app.js'
import { logEvents } from '../support/events.js'
import { long } from '../support/long.js'
import { headerOf, partOf, startMailServer } from '../support/mail-server.js'
import { DASHBOARD } from '../support/staff-app.js'
import { openForms } from '../support/staff-forms.js'
import { closedPort } from '../support/tcp-proxy.js'
import { startWebhookReceiver, TOKEN } from '../support/webhook-receiver.js'

const PAGE = 'alerts.html'
const MAIL: RateLimitOptions = {
  alertEmails: ['ops@example.com', 'oncall@example.com'],
  defaultFromEmail: 'alerts@example.com',
}

/** Returns the rows of a page: what, the result, and whether a message ever went out. */
function rowsOf(html: string): string[][] {
  const rows = html.matchAll(/<th scope="row" role="rowheader">([^<]+)<\/th>([\s\S]*?)<\/tr>/g)
  return [...rows].map(([, what = '', cells = '']) => {
    const text = (label: string) =>
      new RegExp(`data-label="${label}">(.*?)</td>`).exec(cells)?.[1]?.replace(/<[^>]+>/g, '') ?? ''
    return [what, text('Result'), text('Last message') === 'Never' ? 'never sent' : 'sent']
  })
}

test('a viewer sees no secret of a channel, and sends nothing', long(), async (t) => {
  const { get, open } = await openForms(t, 'sqlite', 'viewer', {
    ...MAIL,
    smtpUrl: 'smtp://mailer:hunter2@mail.example.com:2525',
    alertWebhook: `https://name:hunter2@hooks.example.com/${TOKEN}?key=${TOKEN}`,
    alertWebhookFormat: 'slack',
    schedule: { alerts: '0 12 * * *' },
  })
  const { status, text } = await get(PAGE)
  assert.equal(status, 200)
  assert.doesNotMatch(text, /hunter2|T0K3N|ops@|oncall@|Send a test message/)
  assert.equal((await (await open(PAGE)).submit({})).status, 403)
})

test('an operator sends a test message through each channel, and every process shows what came of it', async (t) => {
  const mailServer = await startMailServer(t)
  const receiver = await startWebhookReceiver(t)
  const plugin: RateLimitOptions = {
    ...MAIL,
    smtpUrl: mailServer.url,
    alertWebhook: receiver.url,
    publicUrl: 'https://example.com/ops/dashboard/',
  }
  const { submit, follow, app, log } = await openForms(t, 'sqlite', 'operator', plugin)
  app.log.level = 'info'
  const sent = await submit(PAGE, {})
  assert.deepEqual([sent.status, sent.headers.location], [303, PAGE])
  const { text } = await follow(sent)
  assert.match(text, /role="status">The test message was sent by email\. The test message was sent by webhook\.</)
  assert.deepEqual(rowsOf(text), [
    ['Test message', 'Sent', 'sent'],
    ['Test message', 'Sent', 'sent'],
  ])

  const [{ raw = '', to } = {}] = mailServer.mails
  assert.deepEqual([mailServer.mails.length, to], [1, ['ops@example.com', 'oncall@example.com']])
  assert.equal(headerOf(raw, 'Subject'), '[fastify-smart-ratelimit] Test message')
  assert.match(partOf(raw, 'text/plain'), /This is a test message/)
  assert.match(partOf(raw, 'text/html'), /href="https:\/\/example\.com\/ops\/dashboard\/alerts\.html"/)
  const [{ body = '' } = {}] = receiver.posts
  assert.deepEqual([receiver.posts.length, JSON.parse(body).test], [1, true])
  const line = log.map((each) => Object(each)).find(({ msg = '' }) => msg.startsWith('A test message'))
  assert.equal(line?.actor, 'alice')
})

test('a channel that fails is told with its reason, and the other one sends', async (t) => {
  const receiver = await startWebhookReceiver(t, 404)
  const mailServer = await startMailServer(t)
  const plugin = { ...MAIL, smtpUrl: mailServer.url, alertWebhook: receiver.url }
  const { submit, follow } = await openForms(t, 'sqlite', 'admin', plugin)
  const { text } = await follow(await submit(PAGE, {}))
  assert.match(
    text,
    /role="alert">The test message was sent by email\. The test message by webhook failed: status 404\./,
  )
  assert.deepEqual(rowsOf(text), [
    ['Test message', 'Sent', 'sent'],
    ['Test message', 'Failed: status 404', 'never sent'],
  ])
  assert.match(text, />Email: working<[\s\S]*>Webhook: failing</)
  assert.equal(mailServer.mails.length, 1)
})

test('a mail server that is away is told without a password', async (t) => {
  const port = await closedPort()
  const smtpUrl = `smtp://mailer:hunter2@127.0.0.1:${port}`
  const away = await openForms(t, 'sqlite', 'operator', { ...MAIL, smtpUrl })
  const { text } = await away.follow(await away.submit(PAGE, {}))
  assert.match(text, /The test message by email failed: [^<]*ECONNREFUSED/)
  assert.doesNotMatch(text, /hunter2/)
})

test('what came of the last run is shown by a process that did not run it, and a test does not hide it', async (t) => {
  const receiver = await startWebhookReceiver(t, 500, 500, 200)
  const plugin: RateLimitOptions = { alertWebhook: receiver.url, alertThreshold: 5 }
  const { get, submit, clock, app } = await openForms(t, 'sqlite', 'operator', plugin)
  const client = app.smartRateLimit.client
  const other = await startApp(t, { database: null, clock, plugin: { ...plugin, database: client } })
  assert.deepEqual(rowsOf((await get(PAGE)).text), [])
  const { analytics } = other.app.smartRateLimit
  await analytics.sendOffenderAlerts()
  assert.deepEqual(rowsOf((await get(PAGE)).text), [['Keys over the threshold', 'Nothing to report', 'never sent']])

  await logEvents(client, { key: 'ip:203.0.113.7', blocked: 5, atMs: clock.now() })
  await analytics.sendOffenderAlerts()
  const { text } = await get(PAGE)
  assert.deepEqual(rowsOf(text), [['Keys over the threshold', 'Failed: status 500', 'never sent']])
  assert.match(text, /class="card state failing" aria-labelledby="channel-0"/)
  clock.advance(1_000)
  await submit(PAGE, {})
  const after = await get(PAGE)
  assert.deepEqual(rowsOf(after.text), [
    ['Test message', 'Sent', 'sent'],
    ['Keys over the threshold', 'Failed: status 500', 'never sent'],
  ])
  assert.match(after.text, /class="card state failing" aria-labelledby="channel-0"/)
  await analytics.sendOffenderAlerts()
  assert.match((await get(PAGE)).text, /Reported 1 key</)
})

test('the links of an alert lead to the client, the network and the policy since it began', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const publicUrl = `https://example.com${DASHBOARD}`
  const { get, follow, clock, app } = await openForms(t, 'sqlite', 'viewer', {
    alertWebhook: receiver.url,
    publicUrl,
  })
  const { client, analytics } = app.smartRateLimit
  await client.rateLimitRule.create({ data: { name: 'a&b', pathPattern: '^/', rate: '5/m' } })
  const atMs = clock.now()
  for (const key of ['ip:203.0.113.7', 'ip:203.0.113.8', 'user:a&b c']) {
    await logEvents(client, { key, blocked: 60, atMs })
  }
  for (let last = 0; last < 30; last++) {
    await logEvents(client, {
      key: `rule:a&b:198.51.${last}.1`,
      client: `ip:198.51.${last}.1`,
      ruleName: 'a&b',
      blocked: 10,
      atMs,
    })
  }
  await analytics.sendIncidentAlerts()
  const links = receiver.posts.map(({ body }) => JSON.parse(body).incident)
  assert.deepEqual(links.map(({ scope }) => scope).toSorted(), ['203.0.113.0/24', 'policy:a&b', 'user:a&b c'])
  for (const { scope, url, refused } of links) {
    assert.ok(url.startsWith(publicUrl), url)
    const { status, text } = await follow(await get(url.slice(publicUrl.length)))
    assert.equal(status, 200)
    assert.ok(text.includes(scope.replace('policy:', '').replace('&', '&amp;')), scope)
    assert.ok(text.includes(String(refused)), `${scope} ${refused}`)
    assert.doesNotMatch(text, /Write it as/)
  }
  const listed = (await get(PAGE)).text.match(/id="told"[\s\S]*?<\/table>/)?.[0] ?? ''
  assert.deepEqual(
    [...listed.matchAll(/<bdi>(.*?)<\/bdi>/g)].map(([, name = '']) => name.replace('&amp;', '&')).toSorted(),
    ['203.0.113.0/24', 'policy:a&b', 'user:a&b c'],
  )
  assert.equal(listed.match(/>Webhook<[\s\S]*?<time datetime="[^"]+">[\s\S]*?>Not yet</g)?.length, 3)
})

test('five test messages in five minutes are sent, whoever sends them', async (t) => {
  const receiver = await startWebhookReceiver(t)
  const { submit, clock } = await openForms(t, 'sqlite', 'operator', { alertWebhook: receiver.url })
  for (let sent = 0; sent < 5; sent++) assert.equal((await submit(PAGE, {})).status, 303)
  const refused = await submit(PAGE, {})
  assert.equal(refused.status, 429)
  assert.match(refused.text, /Too many test messages: try again in/)
  assert.equal(receiver.posts.length, 5)
  clock.advance(300_000)
  assert.equal((await submit(PAGE, {})).status, 303)
})
