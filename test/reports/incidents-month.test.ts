import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRandom } from '../../scripts/random.js'
import type { Database } from '../../src/database/database.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { dateChanges } from '../support/changes.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { long } from '../support/long.js'
import { foldRollups } from '../support/rollups.js'

const DAYS = 30
const START = Date.parse('2026-10-26T00:00Z')
const END = START + DAYS * DAY_MS
/** The log is older than the month: what is usual is known from the first day on. */
const LOG_START = START - 7 * DAY_MS

interface Planted {
  readonly scope: string
  readonly clients: readonly string[]
  readonly policy: string
  readonly fromMs: number
  readonly hours: number
  /** Of each client. */
  readonly perHour: number
}

const addresses = (count: number, addressFor: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => `ip:${addressFor(index)}`)

const EDITED_MS = START + 22 * DAY_MS + 10 * HOUR_MS + 15 * MINUTE_MS

const PLANTED: readonly Planted[] = [
  {
    scope: 'ip:203.0.113.7',
    clients: ['ip:203.0.113.7'],
    policy: 'login',
    fromMs: START + 9 * DAY_MS + 11 * HOUR_MS + 20 * MINUTE_MS,
    hours: 3,
    perHour: 400,
  },
  {
    scope: 'user:7',
    clients: ['user:7'],
    policy: 'search',
    fromMs: START + 13 * DAY_MS + 2 * HOUR_MS,
    hours: 3,
    perHour: 90,
  },
  {
    scope: '198.51.100.0/24',
    clients: addresses(6, (index) => `198.51.100.${10 * index}`),
    policy: 'search',
    fromMs: START + 17 * DAY_MS + 15 * HOUR_MS,
    hours: 3,
    perHour: 120,
  },
  {
    scope: '2001:db8:5::/64',
    clients: addresses(3, (index) => `2001:db8:5::${index + 1}`),
    policy: 'default',
    fromMs: START + 18 * DAY_MS + 4 * HOUR_MS + 40 * MINUTE_MS,
    hours: 5,
    perHour: 80,
  },
  // The limit is too low after an edit: many clients are refused some requests each.
  {
    scope: 'policy:export',
    clients: Array.from({ length: 60 }, (_, index) => `user:${1_000 + index}`),
    policy: 'export',
    fromMs: EDITED_MS,
    hours: 5,
    perHour: 8,
  },
]

type Refused = (atMs: number, client: string, policy: string) => Partial<RateLimitEvent>

const refused: Refused = (timestampMs, client, policy) => ({
  timestampMs,
  client,
  policy,
  ruleName: policy === 'default' ? '' : policy,
  key: policy === 'default' ? client : `rule:${policy}:${client.replace(/^ip:/, '')}`,
  path: `/${policy}`,
  allowed: false,
  outcome: 'over_limit',
})

/** Returns how busy a crowd is at an hour, from 0 to 1: most at two in the afternoon, and on Saturday and Sunday a third of it. */
function busyAt(hourMs: number): number {
  const date = new Date(hourMs)
  const byDay = date.getUTCDay() % 6 === 0 ? 1 / 3 : 1
  return byDay * (0.1 + 0.9 * ((1 + Math.cos(((date.getUTCHours() - 14) / 12) * Math.PI)) / 2) ** 2)
}

/** Invents a month and the week before it: a crowd by day and night, impatient clients, jobs of the night, and what is planted. */
function* inventMonth(): Generator<Partial<RateLimitEvent>> {
  const random = createRandom(4)
  const some = (most: number) => Math.floor(random() * (most + 1))
  /** A number between half of the usual one and half more. */
  const about = (usual: number) => Math.round(usual * (0.5 + random()))
  for (let hourMs = LOG_START; hourMs < END; hourMs += HOUR_MS) {
    const at = () => hourMs + some(HOUR_MS - 1)
    const busy = busyAt(hourMs)
    // At noon more than make a policy an incident, had it been quiet.
    for (let each = about(260 * busy); each > 0; each--) yield refused(at(), `user:${some(400)}`, 'default')
    for (let each = about(20 * busy); each > 0; each--) yield refused(at(), `user:${1_000 + some(90)}`, 'export')
    // An office behind one address, impatient now and then.
    for (let each = some(45 * busy); each > 0; each--) yield refused(at(), 'ip:192.0.2.44', 'search')
    // A job that asks too fast every night.
    if (new Date(hourMs).getUTCHours() === 3)
      for (let each = 70 + some(30); each > 0; each--) yield refused(at(), 'user:backup', 'export')
    // A client that gets impatient, every other week: it is found, and needs nobody.
    const impatient = `user:${some(400)}`
    if ((hourMs - START) % (14 * DAY_MS) === 4 * DAY_MS + 16 * HOUR_MS)
      for (let each = 60; each > 0; each--) yield refused(at(), impatient, 'search')
  }
  for (const { clients, policy, fromMs, hours, perHour } of PLANTED)
    for (const client of clients)
      for (let each = 0; each < hours * perHour; each++)
        yield refused(fromMs + Math.floor(((each + random()) * HOUR_MS) / perHour), client, policy)
}

async function logMonth(database: Database, sinceMs: number, untilMs: number): Promise<void> {
  await logRows(
    database,
    [...inventMonth()].filter(({ timestampMs = 0 }) => timestampMs >= sinceMs && timestampMs < untilMs),
  )
  await foldRollups(database, untilMs)
}

forEachDatabase((_provider, open) => {
  test(
    'of a month with planted incidents of each kind, all are found, and at most one a week is false',
    long(),
    async (t) => {
      const clock = fakeClock(END)
      const { database, close } = await open(clock)
      t.after(close)
      await logMonth(database, LOG_START, END)

      const found = await analyticsFor(database, clock).getIncidents({ since: START })
      for (const { scope, fromMs, hours, clients, perHour, policy } of PLANTED) {
        const incident = found.find((each) => each.scope === scope)
        assert.ok(incident, scope)
        // One that is not heavy in the rest of its first hour begins with the next.
        const latest = fromMs % HOUR_MS > HOUR_MS / 2 ? fromMs + HOUR_MS : fromMs
        assert.equal(incident.from, new Date(Math.floor(latest / HOUR_MS) * HOUR_MS).toISOString(), scope)
        assert.ok(Date.parse(incident.to ?? '') >= fromMs + hours * HOUR_MS, scope)
        assert.ok(incident.refused >= clients.length * (hours - 1) * perHour, scope)
        assert.ok(incident.clients >= clients.length, scope)
        assert.deepEqual([incident.policies[0], incident.paths[0], incident.state], [policy, `/${policy}`, 'over'])
      }
      const isPlanted = new Set(PLANTED.map(({ scope }) => scope))
      const falseOnes = found.filter(({ scope }) => !isPlanted.has(scope))
      for (let weekMs = START; weekMs < END; weekMs += 7 * DAY_MS) {
        const inWeek = falseOnes.filter(
          ({ from }) => Date.parse(from) >= weekMs && Date.parse(from) < weekMs + 7 * DAY_MS,
        )
        assert.ok(inWeek.length <= 1, JSON.stringify(inWeek))
      }
      assert.equal(found.length, PLANTED.length + falseOnes.length, 'each is found once')
    },
  )

  test('the edit that caused an incident is nothing that was done about it', long(), async (t) => {
    const clock = fakeClock(EDITED_MS + 2.5 * HOUR_MS)
    const { database, client, close } = await open(clock)
    t.after(close)
    // Then it refuses no more.
    await logMonth(database, clock.now() - 8 * DAY_MS, EDITED_MS + 2 * HOUR_MS)
    const analytics = analyticsFor(database, clock)
    const state = async () => (await analytics.getIncidents()).find(({ scope }) => scope === 'policy:export')?.state
    const setTimes = (atMs: number) => dateChanges(database, atMs)
    const rule = await client.rateLimitRule.create({ data: { name: 'export', pathPattern: '/export', rate: '1/m' } })
    await client.rateLimitRule.update({ where: { id: rule.id }, data: { rate: '2/m' } })
    await setTimes(EDITED_MS)
    assert.equal(await state(), 'open')

    await client.rateLimitRule.update({ where: { id: rule.id }, data: { rate: '100/m' } })
    await setTimes(EDITED_MS + 2 * HOUR_MS)
    assert.equal(await state(), 'acted_on')
  })
})
