import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InvalidSettingError, RevertError } from '../../src/ground/errors.js'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { CooperativeYield } from '../../src/ground/time/cooperative-yield.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { asActor } from '../../src/rules/history/actor.js'
import { listChanges } from '../../src/rules/history/history.js'
import { markIncident } from '../../src/rules/history/incident-changes.js'
import { revertChange } from '../../src/rules/history/revert.js'
import { dateChanges } from '../support/changes.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type TestDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { long } from '../support/long.js'
import { foldRollups } from '../support/rollups.js'

const HOUR_13 = Date.parse('2026-11-24T13:00Z')
const NOW = HOUR_13 + 30 * MINUTE_MS
const iso = (ms: number) => new Date(ms).toISOString()

interface Refusals {
  readonly client: string
  readonly count: number
  readonly atMs: number
  readonly policy?: string
  readonly path?: string
  readonly outcome?: RateLimitEvent['outcome']
}

/** Puts requests that were refused into the log, one after the other within a second. */
async function refuse(database: TestDatabase['database'], ...all: readonly Refusals[]): Promise<void> {
  await logRows(
    database,
    all.flatMap(({ client, count, atMs, policy = 'default', path = '/', outcome = 'over_limit' }) =>
      Array.from({ length: count }, () => ({
        timestampMs: atMs,
        client,
        key: policy === 'default' ? client : `rule:${policy}:${client.replace(/^ip:/, '')}`,
        ruleName: policy === 'default' ? '' : policy,
        policy,
        path,
        outcome,
        allowed: outcome === 'allowed',
      })),
    ),
  )
}

forEachDatabase((_provider, open) => {
  for (const isFolded of [true, false]) {
    const where = isFolded ? 'from the sums' : 'from events that are in no sum yet'
    async function openLog(nowMs = NOW) {
      const clock = fakeClock(nowMs)
      const opened = await open(clock)
      const fold = () => (isFolded ? foldRollups(opened.database, clock.now()) : Promise.resolve())
      return { ...opened, clock, fold, analytics: analyticsFor(opened.database, clock) }
    }

    test(`${where}: a client with 50 refusals is an incident, and one with 49 is none`, async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      await refuse(
        database,
        { client: 'ip:203.0.113.7', count: 40, atMs: HOUR_13 + 5 * MINUTE_MS, policy: 'search', path: '/search' },
        { client: 'ip:203.0.113.7', count: 10, atMs: HOUR_13 + 9 * MINUTE_MS, policy: 'login', path: '/login' },
        { client: 'ip:203.0.113.7', count: 3, atMs: HOUR_13 + 9 * MINUTE_MS, policy: 'override', outcome: 'denied' },
        { client: 'ip:203.0.113.7', count: 5, atMs: HOUR_13 + 9 * MINUTE_MS, outcome: 'allowed' },
        { client: 'user:7', count: 49, atMs: HOUR_13 + 5 * MINUTE_MS },
        { client: 'user:8', count: 60, atMs: HOUR_13 + 5 * MINUTE_MS, outcome: 'denied' },
        { client: 'user:9', count: 60, atMs: HOUR_13 + 5 * MINUTE_MS, outcome: 'unavailable' },
      )
      await fold()

      const [incident, ...others] = await analytics.getIncidents()
      assert.deepEqual(others, [])
      assert.deepEqual(incident, {
        id: incident?.id,
        scope: 'ip:203.0.113.7',
        from: iso(HOUR_13 + 5 * MINUTE_MS),
        to: null,
        state: 'open',
        policies: ['search', 'login'],
        paths: ['/search', '/login'],
        refused: 50,
        denied: 3,
        clients: 1,
      })
      assert.match(incident?.id ?? '', /^[0-9a-f]{20}$/)
    })

    test(`${where}: two heavy clients of a network are its incident, with all its clients`, async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      await refuse(
        database,
        { client: 'ip:203.0.113.7', count: 60, atMs: HOUR_13 },
        { client: 'ip:203.0.113.8', count: 70, atMs: HOUR_13 - HOUR_MS + 53 * MINUTE_MS },
        { client: 'ip:203.0.113.9', count: 2, atMs: HOUR_13 },
        { client: 'ip:203.0.114.9', count: 2, atMs: HOUR_13 },
        { client: 'ip:2001:db8::5', count: 80, atMs: HOUR_13 },
        { client: 'ip:2001:db8:0:0:9::1', count: 80, atMs: HOUR_13 },
        { client: 'ip:2001:db8:0:1::1', count: 55, atMs: HOUR_13 },
        { client: 'ip:203.0.113.7|user:7', count: 51, atMs: HOUR_13 },
      )
      await fold()

      const found = await analytics.getIncidents()
      assert.deepEqual(
        found.map(({ scope, from, refused, clients }) => ({ scope, from, refused, clients })),
        [
          { scope: '2001:db8::/64', from: iso(HOUR_13), refused: 160, clients: 2 },
          { scope: '203.0.113.0/24', from: iso(HOUR_13 - 7 * MINUTE_MS), refused: 132, clients: 3 },
          { scope: 'ip:2001:db8:0:1::1', from: iso(HOUR_13), refused: 55, clients: 1 },
          { scope: 'ip:203.0.113.7|user:7', from: iso(HOUR_13), refused: 51, clients: 1 },
        ],
      )
    })

    test(`${where}: the incident of a client keeps its id when it becomes that of the network`, async (t) => {
      const { database, fold, analytics, clock, close } = await openLog()
      t.after(close)
      const ids = async () => new Map((await analytics.getIncidents()).map(({ scope, id }) => [scope, id]))
      await refuse(database, { client: 'ip:203.0.113.7', count: 60, atMs: NOW - 40 * MINUTE_MS })
      await refuse(database, { client: 'ip:198.51.100.7', count: 60, atMs: NOW - 40 * MINUTE_MS })
      await fold()
      const known = await ids()
      clock.advance(10 * MINUTE_MS)
      await refuse(database, { client: 'ip:203.0.113.7', count: 60, atMs: clock.now() })
      await refuse(database, { client: 'ip:203.0.113.9', count: 60, atMs: clock.now() })
      await fold()
      assert.equal(known.size, 2)
      assert.deepEqual(
        await ids(),
        new Map([
          ['203.0.113.0/24', known.get('ip:203.0.113.7')],
          ['ip:198.51.100.7', known.get('ip:198.51.100.7')],
        ]),
      )
    })

    test(`${where}: a policy is an incident by the refusals of clients that are in no other one`, async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      const many = (policy: string, clients: number, atMs: number) =>
        Array.from({ length: clients }, (_, index) => ({
          client: `user:${policy}${index}`,
          count: 10,
          atMs,
          policy,
          path: `/${policy}`,
        }))
      await refuse(
        database,
        ...many('search', 25, HOUR_13 + MINUTE_MS),
        ...many('login', 19, HOUR_13 + MINUTE_MS),
        // Heavy in this hour: what was refused it an hour before counts for no policy either.
        { client: 'user:1', count: 300, atMs: HOUR_13 + MINUTE_MS, policy: 'login' },
        // The policy began to refuse others after it.
        { client: 'user:1', count: 60, atMs: HOUR_13, policy: 'search', path: '/search' },
        { client: 'user:1', count: 40, atMs: HOUR_13 - 5 * MINUTE_MS, policy: 'export' },
        ...many('export', 17, HOUR_13 - 5 * MINUTE_MS),
      )
      await fold()

      const found = await analytics.getIncidents()
      assert.deepEqual(
        found.map(({ scope, from, refused, clients, policies, paths }) => ({
          scope,
          from,
          refused,
          clients,
          policies,
          paths,
        })),
        [
          {
            scope: 'user:1',
            from: iso(HOUR_13),
            refused: 360,
            clients: 1,
            policies: ['login', 'search'],
            paths: ['/', '/search'],
          },
          {
            scope: 'policy:search',
            from: iso(HOUR_13 + MINUTE_MS),
            refused: 250,
            clients: 25,
            policies: ['search'],
            paths: ['/search'],
          },
        ],
      )
    })

    test(`${where}: what is usual at this hour is no incident`, async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      const days = (client: string, counts: readonly number[], policy?: string) =>
        counts.map((count, index) => ({
          client,
          count,
          atMs: HOUR_13 - (index + 1) * DAY_MS + 5 * MINUTE_MS,
          ...(policy !== undefined && { policy }),
        }))
      await refuse(
        database,
        // The median is 20: 100 refusals are five times as many.
        ...days('user:1', [0, 0, 0, 20, 20, 20, 45]),
        ...days('user:2', [0, 0, 0, 20, 20, 21, 45]),
        { client: 'user:1', count: 100, atMs: HOUR_13 },
        { client: 'user:2', count: 99, atMs: HOUR_13 },
      )
      await fold()

      const found = await analytics.getIncidents()
      assert.deepEqual(
        found.map(({ scope, refused }) => [scope, refused]),
        [['user:1', 100]],
      )
    })

    test(`${where}: days before the first event of the log say nothing of what is usual`, async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      await refuse(
        database,
        { client: 'user:1', count: 20, atMs: HOUR_13 - DAY_MS },
        { client: 'user:1', count: 20, atMs: HOUR_13 - 2 * DAY_MS },
        { client: 'user:1', count: 99, atMs: HOUR_13 },
        { client: 'user:2', count: 50, atMs: HOUR_13 },
      )
      await fold()

      const found = await analytics.getIncidents()
      assert.deepEqual(
        found.map(({ scope }) => scope),
        ['user:2'],
      )
    })

    test(`${where}: an incident lasts until an hour without refusals, and keeps its id`, async (t) => {
      const { database, fold, analytics, clock, close } = await openLog(HOUR_13 + 20 * MINUTE_MS)
      t.after(close)
      const start = HOUR_13 - 7 * MINUTE_MS
      await refuse(database, { client: 'user:1', count: 60, atMs: start })
      await fold()
      const [first] = await analytics.getIncidents()
      assert.deepEqual([first?.from, first?.to, first?.state], [iso(start), null, 'open'])

      // One refusal in the next hour, and then none.
      await refuse(database, { client: 'user:1', count: 1, atMs: HOUR_13 + 21 * MINUTE_MS })
      clock.advance(60 * MINUTE_MS)
      await fold()
      const [second] = await analytics.getIncidents()
      assert.deepEqual([second?.id, second?.to, second?.refused], [first?.id, null, 61])

      clock.advance(2 * MINUTE_MS)
      const [third] = await analytics.getIncidents()
      assert.deepEqual(
        [third?.id, third?.from, third?.to, third?.state],
        [first?.id, iso(start), iso(HOUR_13 + 22 * MINUTE_MS), 'over'],
      )

      clock.advance(3 * HOUR_MS)
      const [later] = await analytics.getIncidents()
      assert.deepEqual([later?.id, later?.from, later?.to], [first?.id, iso(HOUR_13 - HOUR_MS), iso(HOUR_13 + HOUR_MS)])

      // What comes back later is another one.
      await refuse(database, { client: 'user:1', count: 60, atMs: HOUR_13 + 4 * HOUR_MS })
      await fold()
      const ids = (await analytics.getIncidents()).map(({ id, state }) => [id === first?.id, state])
      assert.deepEqual(ids, [
        [false, 'open'],
        [true, 'over'],
      ])
    })

    test(`${where}: an incident is the same in every window that it reaches into`, long(), async (t) => {
      const { database, fold, analytics, close } = await openLog()
      t.after(close)
      const start = HOUR_13 - 5 * DAY_MS
      const hours = Array.from({ length: 5 * 24 + 1 }, (_, hour) => start + hour * HOUR_MS)
      await refuse(
        database,
        { client: 'user:9', count: 1, atMs: start - 20 * DAY_MS },
        ...hours.map((atMs, index) => ({ client: 'user:1', count: index % 20 === 0 ? 60 + index * 5 : 2, atMs })),
      )
      await fold()

      const whole = await analytics.getIncidents({ since: start - DAY_MS })
      const windows = [{ since: NOW - MINUTE_MS }, { days: 1 }, { days: 3 }]
      assert.equal(whole.length, 1)
      for (const window of windows) assert.deepEqual(await analytics.getIncidents(window), whole)
      const past = { since: start + DAY_MS, until: start + 2 * DAY_MS }
      assert.deepEqual(await analytics.getIncidents(past), whole)
      assert.deepEqual(await analytics.getIncidents({ since: start - 9 * DAY_MS, until: start }), [])
    })
  }

  test('an override or an edit of the policy since it began is what was done about it', async (t) => {
    const clock = fakeClock(NOW)
    const { database, client, close } = await open(clock)
    t.after(close)
    const analytics = analyticsFor(database, clock)
    await client.rateLimitRule.create({ data: { name: 'search', pathPattern: '/search', rate: '5/m' } })
    await client.rateLimitRule.update({ where: { name: 'search' }, data: { rate: '6/m' } })
    await refuse(
      database,
      { client: 'ip:203.0.113.7', count: 60, atMs: HOUR_13 },
      { client: 'ip:198.51.100.1', count: 60, atMs: HOUR_13 },
      { client: 'ip:198.51.100.2', count: 60, atMs: HOUR_13 },
      { client: 'user:1', count: 60, atMs: HOUR_13 },
      { client: 'user:2', count: 60, atMs: HOUR_13, policy: 'search' },
      { client: 'user:3', count: 60, atMs: HOUR_13, policy: 'new' },
    )
    // A rule that is new was not edited.
    await client.rateLimitRule.create({ data: { name: 'new', pathPattern: '/new', rate: '5/m' } })
    const changeAt = (atMs: number) => dateChanges(database, atMs)
    const actedOn = async () =>
      (await analytics.getIncidents()).flatMap(({ scope, state }) => (state === 'acted_on' ? [scope] : [])).sort()
    for (const name of ['203.0.113.0/28', '198.51.100.2', 'user:1']) {
      await client.rateLimitOverride.create({ data: { client: name, effect: 'deny' } })
    }
    await changeAt(HOUR_13 - MINUTE_MS)
    assert.deepEqual(await actedOn(), [])

    await changeAt(HOUR_13 + MINUTE_MS)
    assert.deepEqual(await actedOn(), ['198.51.100.0/24', 'ip:203.0.113.7', 'user:1', 'user:2'])
    // What was taken back is no action.
    await client.rateLimitOverride.deleteMany({ where: { client: 'user:1' } })
    assert.deepEqual(await actedOn(), ['198.51.100.0/24', 'ip:203.0.113.7', 'user:2'])
    clock.advance(3 * HOUR_MS)
    assert.deepEqual(await actedOn(), [])
  })

  test('an incident that somebody ignores needs nobody any more, in all processes', async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    await refuse(
      database,
      { client: 'user:1', count: 60, atMs: HOUR_13 },
      { client: 'user:2', count: 50, atMs: HOUR_13 },
    )
    const states = async () =>
      Object.fromEntries((await analyticsFor(database, clock).getIncidents()).map(({ scope, state }) => [scope, state]))
    const mark = (isIgnored: boolean) =>
      asActor('alice', () => markIncident(database, 'user:1', isIgnored, clock.now()))
    await mark(true)
    assert.deepEqual(await states(), { 'user:1': 'acted_on', 'user:2': 'open' })
    await mark(false)
    assert.deepEqual(await states(), { 'user:1': 'open', 'user:2': 'open' })

    const changes = await listChanges(database, 'user:1')
    assert.deepEqual(
      changes.map(({ entity, name, actor, after }) => [entity, name, actor, after]),
      [
        ['incident', 'user:1', 'alice', { ignored: false }],
        ['incident', 'user:1', 'alice', { ignored: true }],
      ],
    )
    assert.equal((await listChanges(database, 'user:2')).length, 0)
    const [latest, first] = changes
    await assert.rejects(revertChange(database, clock.now(), first?.id ?? 0), RevertError)
    await revertChange(database, clock.now(), latest?.id ?? 0)
    assert.deepEqual(await states(), { 'user:1': 'acted_on', 'user:2': 'open' })
  })

  test('who ignores the incident of a client does not ignore that of its network', async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    const states = async () =>
      (await analyticsFor(database, clock).getIncidents()).map(({ scope, state }) => [scope, state])
    await refuse(database, { client: 'ip:203.0.113.7', count: 60, atMs: HOUR_13 })
    await markIncident(database, 'ip:203.0.113.7', true, clock.now())
    assert.deepEqual(await states(), [['ip:203.0.113.7', 'acted_on']])
    await refuse(database, { client: 'ip:203.0.113.8', count: 60, atMs: NOW })
    assert.deepEqual(await states(), [['203.0.113.0/24', 'open']])
    await markIncident(database, 'ip:203.0.113.0/24', true, clock.now())
    assert.deepEqual(await states(), [['203.0.113.0/24', 'acted_on']])
    // What comes back after it was over is another incident.
    clock.advance(3 * HOUR_MS)
    await refuse(
      database,
      ...['7', '8'].map((end) => ({ client: `ip:203.0.113.${end}`, count: 60, atMs: clock.now() })),
    )
    assert.deepEqual((await states())[0], ['203.0.113.0/24', 'open'])
  })

  test('clients of which only a pseudonym is known are in no network, and are acted on by it', async (t) => {
    const clock = fakeClock(NOW)
    const { database, client, close } = await open(clock)
    t.after(close)
    const names = ['a', 'b'].map((digit) => `ip:~${digit.repeat(32)}`)
    await refuse(database, ...names.map((name, index) => ({ client: name, count: 60 - index, atMs: HOUR_13 })))
    await client.rateLimitOverride.create({ data: { client: names[0] ?? '', effect: 'deny' } })
    const states = (await analyticsFor(database, clock).getIncidents()).map(({ scope, state }) => [scope, state])
    assert.deepEqual(states, [
      [names[1], 'open'],
      [names[0], 'acted_on'],
    ])
  })

  test('a client that is erased is in no incident any more', async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    await refuse(
      database,
      { client: 'user:1', count: 60, atMs: HOUR_13 - 5 * HOUR_MS },
      { client: 'user:2', count: 60, atMs: HOUR_13 - 5 * HOUR_MS },
    )
    await foldRollups(database, clock.now())
    const analytics = analyticsFor(database, clock)
    assert.equal((await analytics.getIncidents()).length, 2)
    await database.log.execute(`DELETE FROM ${database.log.dialect.table('rate_limit_event')} WHERE client = $1`, [
      'user:1',
    ])
    const scopes = async () => (await analytics.getIncidents()).map(({ scope }) => scope)
    assert.deepEqual(await scopes(), ['user:2'])
    await foldRollups(database, clock.now())
    assert.deepEqual(await scopes(), ['user:2'])
  })

  test(
    'of very many heavy clients the first ones are incidents, and the others count for their policy',
    long(),
    async (t) => {
      const clock = fakeClock(NOW)
      const { database, close } = await open(clock)
      t.after(close)
      const crowd = Array.from({ length: 505 }, (_, index) => `user:${String(index).padStart(3, '0')}`)
      await refuse(database, ...crowd.map((client) => ({ client, count: 50, atMs: HOUR_13 })))
      const found = await analyticsFor(database, clock).getIncidents()
      assert.equal(found.length, 501)
      assert.deepEqual([found[0]?.scope, found[0]?.refused, found[0]?.clients], ['policy:default', 250, 5])
    },
  )

  test('names of clients and policies are only ever text', async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    const hostile = [
      `key:'; DROP TABLE x; --`,
      'key:ip:203.0.113.0/24',
      'ip:not-an-address',
      'ip:1.2.3.4%\u{1f600}',
      'key:|\\',
    ]
    await refuse(
      database,
      ...hostile.map((client) => ({ client, count: 50, atMs: HOUR_13 })),
      ...hostile.map((client) => ({ client: '', count: 200, atMs: HOUR_13, policy: `policy ${client}` })),
    )
    const scopes = (await analyticsFor(database, clock).getIncidents()).map(({ scope }) => scope)
    assert.deepEqual(scopes.toSorted(), [...hostile, ...hostile.map((client) => `policy:policy ${client}`)].toSorted())
  })

  /** Puts one refusal by each of some policies into each of some hours, and 300 by the first policy. */
  async function logPolicies(database: TestDatabase['database'], policies: number, hours: number) {
    for (let hour = 0; hour < hours; hour++) {
      const rows = Array.from({ length: policies }, (_, number) => ({
        timestampMs: NOW - hour * HOUR_MS,
        client: `user:${number}`,
        key: `rule:policy-${number}:user:${number}`,
        ruleName: `policy-${number}`,
        policy: `policy-${number}`,
        outcome: 'over_limit' as const,
        allowed: false,
      }))
      const many = Array.from({ length: 10 }, (_, number) => ({ ...rows[0], client: `key:${number}`, weight: 30 }))
      await logRows(database, [...rows, ...many])
    }
    await foldRollups(database, NOW)
  }

  test('incidents of many policies are found in slices', async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    await logPolicies(database, 20, 6)
    // Each look at the clock finds more than a slice.
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => (nowMs += 10))
    const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
    const found = await analyticsFor(database, clock).getIncidents()
    assert.deepEqual(
      found.map(({ scope, refused }) => [scope, refused]),
      [['policy:policy-0', 6 * 301]],
    )
    assert.ok(mock.callCount() >= 10, `other work could run ${mock.callCount()} times`)
  })

  test('thousands of policies that refuse somebody in every hour hide no incident', long(), async (t) => {
    const clock = fakeClock(NOW)
    const { database, close } = await open(clock)
    t.after(close)
    // More rows than a call takes arguments. What was usual the day before is none.
    await logPolicies(database, 5_000, 40)
    const found = await analyticsFor(database, clock).getIncidents()
    assert.deepEqual(
      found.map(({ scope, refused }) => [scope, refused]),
      [['policy:policy-0', 24 * 301]],
    )
  })

  test('a window that ends before it begins is refused', async (t) => {
    const { database, close } = await open()
    t.after(close)
    const analytics = analyticsFor(database, fakeClock())
    for (const options of [{ until: 5 }, { since: 5, until: 5 }, { since: 'yesterday' }, { days: 0 }]) {
      await assert.rejects(analytics.getIncidents(options), InvalidSettingError)
    }
  })
})
