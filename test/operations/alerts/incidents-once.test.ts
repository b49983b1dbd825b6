/** An incident that changes while it goes on is still told once through each channel. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { AlertSettingOptions } from '../../../src/operations/alerts/channels/channels.js'
import { WEBHOOK_FORMATS } from '../../../src/operations/alerts/channels/webhook-format.js'
import { startAlerts } from '../../support/alerts.js'
import { forEachDatabase } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { long } from '../../support/long.js'
import { headerOf, startMailServer } from '../../support/mail-server.js'
import { startWebhookReceiver } from '../../support/webhook-receiver.js'

interface Attack {
  readonly clients: readonly string[]
  readonly policy: string
  readonly fromMinute: number
  readonly toMinute: number
  /** Of each client. */
  readonly perHour: number
}

const addresses = (count: number, addressFor: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => `ip:${addressFor(index + 1)}`)

/** Each kind of incident, as it begins in real life: slowly, from more and more addresses, before and after a whole hour. */
const ATTACKS: readonly Attack[] = [
  { clients: ['ip:203.0.113.7'], policy: 'login', fromMinute: 20, toMinute: 170, perHour: 400 },
  { clients: ['user:7'], policy: 'search', fromMinute: 0, toMinute: 150, perHour: 90 },
  // All together are many for the policy before one of them is heavy.
  {
    clients: addresses(6, (index) => `198.51.100.${index}`),
    policy: 'items',
    fromMinute: 0,
    toMinute: 180,
    perHour: 120,
  },
  {
    clients: addresses(25, (index) => `192.0.2.${index}`),
    policy: 'cart',
    fromMinute: 50,
    toMinute: 170,
    perHour: 120,
  },
  // One address, then its neighbours too.
  { clients: ['ip:2001:db8:5::1'], policy: 'default', fromMinute: 5, toMinute: 160, perHour: 200 },
  {
    clients: addresses(3, (index) => `2001:db8:5::1${index}`),
    policy: 'default',
    fromMinute: 70,
    toMinute: 160,
    perHour: 150,
  },
  {
    clients: Array.from({ length: 60 }, (_, index) => `user:${1_000 + index}`),
    policy: 'export',
    fromMinute: 10,
    toMinute: 170,
    perHour: 8,
  },
]
const TOLD = ['2001:db8:5::1', '203.0.113.7', 'a policy', 'a policy', 'a policy', 'a user']
const STEP = 10

forEachDatabase((_provider, open) => {
  async function start(t: Parameters<typeof startAlerts>[0]) {
    const run = await startAlerts(t, open)
    const { clock, database } = run
    clock.advance(HOUR_MS - (clock.now() % HOUR_MS))
    const startMs = clock.now()
    /** Goes on until a minute, with the refusals of that time. */
    const goOn = async (fromMinute: number, toMinute: number, attacks = ATTACKS) => {
      clock.advance((toMinute - fromMinute) * MINUTE_MS)
      const rows = attacks.flatMap(({ clients, policy, perHour, ...times }, attack) => {
        const from = Math.max(fromMinute, times.fromMinute)
        const count = Math.round(((Math.min(toMinute, times.toMinute) - from) * perHour) / 60)
        return clients.flatMap((client) =>
          Array.from({ length: Math.max(0, count) }, (_, index) => ({
            timestampMs: startMs + (from + (index * 60) / perHour) * MINUTE_MS + attack,
            client,
            key: client,
            policy,
            ruleName: policy === 'default' ? '' : policy,
            path: `/${policy}`,
            allowed: false,
            outcome: 'over_limit' as const,
          })),
        )
      })
      await logRows(database.database, rows)
    }
    return { ...run, goOn, send: (options: AlertSettingOptions) => run.analytics(options).sendIncidentAlerts() }
  }

  test('every kind of incident is one message through each channel, however it begins and grows', long(), async (t) => {
    const mailServer = await startMailServer(t)
    const { goOn, send } = await start(t)
    const receivers = await Promise.all(
      WEBHOOK_FORMATS.map(async (alertWebhookFormat) => ({ alertWebhookFormat, ...(await startWebhookReceiver(t)) })),
    )
    const settings = receivers.map(({ alertWebhookFormat, url }, index): AlertSettingOptions => {
      const mail = { alertEmails: ['ops@example.com'], defaultFromEmail: 'alerts@example.com', smtpUrl: mailServer.url }
      const alertRoutingKey = alertWebhookFormat === 'pagerduty' ? 'k'.repeat(32) : undefined
      return { ...(index === 0 && mail), alertWebhook: url, alertWebhookFormat, alertRoutingKey }
    })
    for (let minute = STEP; minute <= 200; minute += STEP) {
      await goOn(minute - STEP, minute)
      for (const options of settings) await send(options)
    }
    const subjects = mailServer.mails.map(({ raw }) => headerOf(raw, 'Subject')?.split('Incident: ')[1] ?? '')
    // The networks were told as what they began as.
    assert.deepEqual(subjects.toSorted(), TOLD)
    for (const { alertWebhookFormat, posts } of receivers) {
      assert.equal(posts.length, TOLD.length, alertWebhookFormat)
    }
  })

  test('what was told as the incident of a policy is told to be over under the same name', long(), async (t) => {
    const pager = await startWebhookReceiver(t)
    const chat = await startWebhookReceiver(t)
    const { goOn, send, analytics } = await start(t)
    const resolved = { alertResolved: true, alertCooldown: 60 }
    const paging = { alertWebhookFormat: 'pagerduty', alertRoutingKey: 'k'.repeat(32) } as const
    for (let minute = STEP; minute <= 5 * 60; minute += STEP) {
      await goOn(minute - STEP, minute, ATTACKS.slice(2, 3))
      await send({ ...resolved, ...paging, alertWebhook: pager.url })
      await send({ ...resolved, alertWebhook: chat.url })
    }
    const [incident, ...others] = await analytics({}).getIncidents()
    assert.deepEqual([incident?.scope, incident?.state, others], ['198.51.100.0/24', 'over', []])
    const events = pager.posts.map(({ body }) => JSON.parse(body))
    assert.deepEqual(
      events.map(({ event_action }) => event_action),
      ['trigger', 'resolve'],
    )
    assert.equal(new Set(events.map(({ dedup_key }) => dedup_key)).size, 1)
    const told = chat.posts.map(({ body }) => JSON.parse(body).incident)
    assert.deepEqual(
      told.map(({ scope, state }) => [scope, state]),
      [
        ['policy:items', 'open'],
        ['198.51.100.0/24', 'over'],
      ],
    )
    assert.equal(told[0].id, told[1].id)
  })

  test('a policy that goes on beside the network that was found in it is told besides', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { goOn, send } = await start(t)
    const crowd: Attack = {
      clients: Array.from({ length: 40 }, (_, index) => `user:${index}`),
      policy: 'items',
      fromMinute: 0,
      toMinute: 60,
      perHour: 20,
    }
    for (let minute = STEP; minute <= 60; minute += STEP) {
      await goOn(minute - STEP, minute, [...ATTACKS.slice(2, 3), crowd])
      await send({ alertWebhook: receiver.url })
    }
    const told = receiver.posts.map(({ body }) => JSON.parse(body).incident.scope)
    assert.deepEqual(told.toSorted(), ['198.51.100.0/24', 'policy:items'])
  })

  test('an incident that goes on again after it was told to be over is told again', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { goOn, send } = await start(t)
    const settings = { alertResolved: true, alertCooldown: 60, alertWebhook: receiver.url }
    const attack = (fromMinute: number): Attack => {
      return { clients: ['user:7'], policy: 'search', fromMinute, toMinute: fromMinute + 5, perHour: 1_200 }
    }
    await goOn(0, 5, [attack(0)])
    await send(settings)
    await goOn(5, 70, [attack(0)])
    await send(settings)
    await goOn(70, 100, [attack(90)])
    for (const _ of [1, 2]) await send(settings)
    await goOn(100, 300, [attack(90)])
    for (const _ of [1, 2]) await send(settings)
    const told = receiver.posts.map(({ body }) => JSON.parse(body).incident)
    assert.deepEqual(
      told.map(({ state }) => state),
      ['open', 'over', 'open', 'over'],
    )
    assert.equal(new Set(told.map(({ id }) => id)).size, 1)
  })
})
