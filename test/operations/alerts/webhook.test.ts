import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { startAlerts } from '../../support/alerts.js'
import { logRows } from '../../support/events.js'
import { long } from '../../support/long.js'
import { startMailServer } from '../../support/mail-server.js'
import { closedPort } from '../../support/tcp-proxy.js'
import { type ReceivedPost, startWebhookReceiver, TOKEN } from '../../support/webhook-receiver.js'

function secret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

/** @throws unless the secret signed the post */
function verify(post: ReceivedPost | undefined, by: string): unknown {
  assert.ok(post)
  return new Webhook(by).verify(post.body, {
    'webhook-id': String(post.headers['webhook-id']),
    'webhook-timestamp': String(post.headers['webhook-timestamp']),
    'webhook-signature': String(post.headers['webhook-signature']),
  })
}

describe('an alert by webhook', () => {
  test('is posted as JSON, and unsigned without a secret', async (t) => {
    const { url, posts } = await startWebhookReceiver(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const { channels } = await analytics({ alertThreshold: 5 }).sendOffenderAlerts({ webhookUrl: url })

    assert.deepEqual(channels, { webhook: { sent: true } })
    assert.equal(posts.length, 1)
    const [post] = posts
    assert.ok(post)
    assert.deepEqual(
      [post.method, post.path, post.headers['content-type']],
      ['POST', `/hooks/${TOKEN}`, 'application/json'],
    )
    assert.equal(post.headers['webhook-signature'], undefined)
    assert.deepEqual(JSON.parse(post.body), {
      threshold: 5,
      days: 1,
      offenders: [{ key: 'ip:203.0.113.7', blocked_count: 8 }],
    })
  })

  test('is signed by every secret, so that one can be exchanged', async (t) => {
    const { url, posts } = await startWebhookReceiver(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const [former, next] = [secret(), secret()]
    const settings = { alertThreshold: 5, alertWebhook: url, alertWebhookSecret: [former, next] }
    await analytics(settings).sendOffenderAlerts()

    for (const known of [former, next]) assert.deepEqual(verify(posts[0], known), JSON.parse(posts[0]?.body ?? ''))
    assert.throws(() => verify(posts[0], secret()))
  })

  test('is cut from the end where it would be 20 kB or more', async (t) => {
    const { url, posts } = await startWebhookReceiver(t)
    const { analytics, database, clock } = await startAlerts(t)
    const refused = { timestampMs: clock.now(), allowed: false, outcome: 'over_limit' } as const
    await logRows(
      database.database,
      Array.from({ length: 500 }, (_, place) => ({ ...refused, key: `rule:api:${'ü'.repeat(100)}${place}` })),
    )
    const { offenders } = await analytics({ alertWebhook: url }).sendOffenderAlerts({ threshold: 1 })

    const body = posts[0]?.body ?? ''
    assert.ok(Buffer.byteLength(body) < 20_000 && Buffer.byteLength(body) > 19_000)
    const sent = JSON.parse(body)
    assert.deepEqual(sent.offenders, offenders.slice(0, sent.offenders.length))
    assert.equal(sent.omitted, 500 - sent.offenders.length)
  })

  test('is tried once more after a 500, with the same id, and counts as sent', async (t) => {
    const { url, posts } = await startWebhookReceiver(t, 500, 200)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const by = secret()
    const settings = { alertThreshold: 5, alertWebhook: url, alertWebhookSecret: by }
    const { channels } = await analytics(settings).sendOffenderAlerts()

    assert.deepEqual(channels, { webhook: { sent: true } })
    assert.equal(posts.length, 2)
    assert.equal(posts[1]?.headers['webhook-id'], posts[0]?.headers['webhook-id'])
    for (const post of posts) verify(post, by)
    await analytics(settings).sendOffenderAlerts()
    assert.notEqual(posts[2]?.headers['webhook-id'], posts[0]?.headers['webhook-id'])
  })

  test('is tried once more when the connection breaks', async (t) => {
    const { url, posts } = await startWebhookReceiver(t, 'drop', 204)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const { channels } = await analytics({ alertWebhook: url }).sendOffenderAlerts({ threshold: 5 })

    assert.deepEqual([channels, posts.length], [{ webhook: { sent: true } }, 2])
  })

  test('is sent when the head of an answer is there, however long the rest takes', async (t) => {
    const { url } = await startWebhookReceiver(t, 'drip')
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const { channels } = await analytics({ alertWebhook: url }).sendOffenderAlerts({ threshold: 5 })

    assert.deepEqual(channels, { webhook: { sent: true } })
  })
})

describe('a webhook that fails', () => {
  for (const [behaviours, error, tries] of [
    [[500, 503], 'status 503', 2],
    [['drop'], 'network error (ECONNRESET)', 2],
    [[404], 'status 404', 1],
    [[429], 'status 429', 1],
    [[302], 'status 302: redirects are not followed', 1],
    [[308], 'status 308: redirects are not followed', 1],
    [['hang'], 'no answer within 2 s', 1],
  ] as const) {
    test(`by ${behaviours.join(', then ')} is "${error}" after ${tries} attempt(s)`, long(), async (t) => {
      const { url, posts } = await startWebhookReceiver(t, ...behaviours)
      const { analytics, block, log } = await startAlerts(t)
      await block('ip:203.0.113.7', 8)
      const times = behaviours.some((behaviour) => behaviour === 'hang') ? { webhookTimeoutMs: 2_000 } : {}
      const { channels } = await analytics({ alertWebhook: url }, times).sendOffenderAlerts({ threshold: 5 })

      assert.deepEqual(channels, { webhook: { sent: false, error } })
      assert.equal(posts.length, tries)
      assert.deepEqual(
        log.map(({ message }) => message),
        [`Rate limit alert by webhook failed: ${error}`],
      )
    })
  }

  test('to a receiver that hangs keeps no mail from being sent, nor a mail server that hangs a post', async (t) => {
    const [hanging, well] = [await startWebhookReceiver(t, 'hang'), await startWebhookReceiver(t)]
    const [silent, mailServer] = [await startMailServer(t, { isSilent: true }), await startMailServer(t)]
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const run = async (alertWebhook: string, smtpUrl: string, times: object) => {
      const settings = { alertWebhook, smtpUrl, defaultFromEmail: 'alerts@example.com' }
      const to = { threshold: 5, emailTo: 'ops@example.com' }
      const { channels } = await analytics(settings, times).sendOffenderAlerts(to)
      return [channels.email?.sent, channels.webhook?.sent]
    }

    assert.deepEqual(await run(hanging.url, mailServer.url, { webhookTimeoutMs: 250 }), [true, false])
    assert.deepEqual(await run(well.url, silent.url, { emailTimeoutMs: 400 }), [false, true])
    assert.deepEqual([mailServer.mails.length, well.posts.length], [1, 1])
  })

  test('is never shown with its URL', async (t) => {
    const { analytics, block, log } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const { sendOffenderAlerts } = analytics({ alertThreshold: 5 })
    for (const webhookUrl of [
      `http://127.0.0.1:${await closedPort()}/${TOKEN}`,
      `http://no-such-host.invalid/${TOKEN}`,
      `ftp://127.0.0.1/${TOKEN}`,
      `file:///etc/${TOKEN}`,
      `https://${TOKEN} with blanks`,
    ]) {
      const { channels } = await sendOffenderAlerts({ webhookUrl })
      assert.equal(channels.webhook?.sent, false)
      assert.doesNotMatch(JSON.stringify([channels, log]), new RegExp(TOKEN))
    }
  })

  test('to a server without TLS where https is asked for is a network error', async (t) => {
    const { port } = await startWebhookReceiver(t)
    const { analytics, block } = await startAlerts(t)
    await block('ip:203.0.113.7', 8)
    const webhookUrl = `https://127.0.0.1:${port}/`
    const { channels } = await analytics({}).sendOffenderAlerts({ threshold: 5, webhookUrl })

    assert.match(channels.webhook?.error ?? '', /^network error \(E\w+\)$/)
  })
})
