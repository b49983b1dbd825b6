import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { AlertSettingOptions } from '../../../src/operations/alerts/channels/channels.js'
import { startAlerts } from '../../support/alerts.js'
import { forEachDatabase } from '../../support/databases.js'
import { startMailServer } from '../../support/mail-server.js'
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js'

const HOUR = 3_600

function notified({ posts }: WebhookReceiver): string[][] {
  return posts.map(({ body }) => JSON.parse(body).offenders.map(({ key }: { key: string }) => key))
}

forEachDatabase((_provider, open) => {
  /** Alerts about 5 refused requests by a webhook, with a cool-down of an hour. */
  async function start(
    t: TestContext,
    { answers = [], ...options }: AlertSettingOptions & { answers?: number[] } = {},
  ) {
    const receiver = await startWebhookReceiver(t, ...answers)
    const run = await startAlerts(t, open)
    const settings = { alertThreshold: 5, alertWebhook: receiver.url, alertCooldown: HOUR, ...options }
    const { sendOffenderAlerts } = run.analytics(settings)
    /** Of so many processes, at the same moment. */
    const sendAtOnce = (processes: number) =>
      Promise.all(Array.from({ length: processes }, () => run.analytics(settings).sendOffenderAlerts()))
    return { ...run, receiver, sendOffenderAlerts, sendAtOnce }
  }

  test('without a cool-down every run sends', async (t) => {
    const { receiver, sendOffenderAlerts, block } = await start(t, { alertCooldown: 0 })
    await block('ip:203.0.113.7', 5)
    await sendOffenderAlerts()
    await sendOffenderAlerts()

    assert.equal(receiver.posts.length, 2)
  })

  test('a key that was notified is quiet until the cool-down is over, and a new one is not', async (t) => {
    const { receiver, sendOffenderAlerts, block, clock } = await start(t)
    await block('first', 5)
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: true })
    clock.advance(10 * MINUTE_MS)
    const quiet = await sendOffenderAlerts()
    assert.deepEqual(quiet.channels.webhook, { sent: false, quiet: 1 })
    assert.equal(quiet.offenders.length, 1)
    await block('second', 5)
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: true, quiet: 1 })
    clock.advance(50 * MINUTE_MS - 1)
    await sendOffenderAlerts()
    clock.advance(1)
    await sendOffenderAlerts()

    assert.deepEqual(notified(receiver), [['first'], ['second'], ['first']])
  })

  test('a key whose count has doubled is notified again at once', async (t) => {
    const { receiver, sendOffenderAlerts, block } = await start(t)
    await block('key', 6)
    await sendOffenderAlerts()
    await block('key', 5)
    await sendOffenderAlerts()
    assert.equal(receiver.posts.length, 1)
    await block('key', 1)
    await sendOffenderAlerts()
    await sendOffenderAlerts()

    assert.equal(receiver.posts.length, 2)
  })

  test('a channel that failed is tried by the next run, and the one that did not is quiet', async (t) => {
    const { url: smtpUrl, mails } = await startMailServer(t)
    const { receiver, sendOffenderAlerts, block } = await start(t, {
      answers: [404, 200],
      alertEmails: ['ops@example.com'],
      defaultFromEmail: 'alerts@example.com',
      smtpUrl,
    })
    await block('key', 5)
    await sendOffenderAlerts()
    const { channels } = await sendOffenderAlerts()
    await sendOffenderAlerts()

    assert.deepEqual(channels.webhook, { sent: true })
    assert.equal(channels.email?.quiet, 1)
    assert.deepEqual([receiver.posts.length, mails.length], [2, 1])
  })

  test('other recipients and another threshold have a memory of their own', async (t) => {
    const { receiver, sendOffenderAlerts, block } = await start(t)
    const other = await startWebhookReceiver(t)
    await block('key', 9)
    await sendOffenderAlerts()
    await sendOffenderAlerts({ webhookUrl: other.url })
    await sendOffenderAlerts({ threshold: 9 })
    await sendOffenderAlerts()

    assert.deepEqual([receiver.posts.length, other.posts.length], [2, 1])
  })

  test('of runs at the same moment one notifies each key', async (t) => {
    const { receiver, sendAtOnce, block } = await start(t)
    for (const key of ['a', 'b', 'c', 'd']) await block(key, 5)
    await sendAtOnce(6)

    assert.deepEqual(notified(receiver).flat().sort(), ['a', 'b', 'c', 'd'])
  })

  test('a run that died in the midst keeps no key quiet for longer than some minutes', async (t) => {
    const { receiver, sendOffenderAlerts, block, clock, database } = await start(t)
    await block('key', 5)
    await sendOffenderAlerts()
    // As a run leaves it that claimed the key and was killed.
    const { dialect } = database.database
    await database.database.execute(
      `UPDATE ${dialect.table('rate_limit_alert')} SET notified_at = NULL, claim = 'dead', claimed_until = ${dialect.fromMs('$1')}`,
      [clock.now() + 2 * MINUTE_MS],
    )
    await sendOffenderAlerts()
    assert.equal(receiver.posts.length, 1)
    clock.advance(2 * MINUTE_MS)
    await sendOffenderAlerts()

    assert.equal(receiver.posts.length, 2)
  })

  test('a key that fell silent is notified once, and only after an alert about it', async (t) => {
    const { receiver, sendOffenderAlerts, block, clock } = await start(t, {
      alertCooldown: 2 * 24 * HOUR,
      alertResolved: true,
    })
    await block('loud', 5)
    await block('soft', 4)
    await sendOffenderAlerts()
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: false, quiet: 1 })
    clock.advance(DAY_MS + HOUR_MS)
    const { offenders, channels } = await sendOffenderAlerts()
    assert.deepEqual([offenders, channels.webhook], [[], { sent: true, resolved: 1 }])
    await sendOffenderAlerts()

    assert.deepEqual(
      receiver.posts.map(({ body }) => JSON.parse(body)),
      [
        { threshold: 5, days: 1, offenders: [{ key: 'loud', blocked_count: 5 }] },
        { threshold: 5, days: 1, offenders: [], resolved: ['loud'] },
      ],
    )
  })

  test('what a format has no word for is settled, and not said to have been sent', async (t) => {
    const { receiver, sendOffenderAlerts, block, clock } = await start(t, {
      alertCooldown: 7 * 24 * HOUR,
      alertResolved: true,
      alertWebhookFormat: 'pagerduty',
      alertRoutingKey: 'a'.repeat(32),
    })
    await block('silent', 5)
    clock.advance(HOUR_MS)
    await block('loud', 5)
    await sendOffenderAlerts()
    clock.advance(DAY_MS - HOUR_MS + 1)
    // The incident goes on, with the other key.
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: false, quiet: 1 })
    clock.advance(HOUR_MS)
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: true, resolved: 1 })

    assert.deepEqual(
      receiver.posts.map(({ body }) => JSON.parse(body).event_action),
      ['trigger', 'resolve'],
    )
  })

  test('a key that comes back within the cool-down stays quiet, and is notified when that is over', async (t) => {
    const { receiver, sendOffenderAlerts, block, clock } = await start(t, {
      alertCooldown: 3 * 24 * HOUR,
      alertResolved: true,
    })
    await block('key', 5)
    await sendOffenderAlerts()
    clock.advance(DAY_MS + HOUR_MS)
    await sendOffenderAlerts()
    await block('key', 5)
    assert.deepEqual((await sendOffenderAlerts()).channels.webhook, { sent: false, quiet: 1 })
    clock.advance(2 * DAY_MS)
    await block('key', 5)
    await sendOffenderAlerts()

    assert.deepEqual(notified(receiver), [['key'], [], ['key']])
  })

  test('of runs at the same moment one notifies that a key fell silent', async (t) => {
    const { receiver, sendOffenderAlerts, sendAtOnce, block, clock } = await start(t, { alertResolved: true })
    await block('key', 5)
    await sendOffenderAlerts()
    clock.advance(DAY_MS + HOUR_MS)
    await sendAtOnce(6)

    assert.equal(receiver.posts.length, 2)
  })

  test('expired alerts are deleted', async (t) => {
    const { sendOffenderAlerts, block, clock, database } = await start(t)
    const rows = async () => {
      const { query, dialect } = database.database
      const [counted] = await query<{ count: number }>(
        `SELECT COUNT(*) AS count FROM ${dialect.table('rate_limit_alert')}`,
      )
      return counted?.count
    }
    for (const key of ['a', 'b']) await block(key, 5)
    await sendOffenderAlerts()
    assert.equal(await rows(), 2)
    clock.advance(3 * DAY_MS)
    await sendOffenderAlerts()

    assert.equal(await rows(), 0)
  })

  test('where its table cannot be used every key is notified, and the log says why', async (t) => {
    const { sendOffenderAlerts, block, database, log } = await start(t)
    await block('key', 5)
    await database.database.execute(`DROP TABLE ${database.database.dialect.table('rate_limit_alert')}`)
    const { channels } = await sendOffenderAlerts()

    assert.deepEqual(channels.webhook, { sent: true })
    assert.match(
      log[0]?.message ?? '',
      /cool-down is not applied.*: A table is missing .*"ratelimit migrate( --schema \w+)?"/,
    )
  })
})
