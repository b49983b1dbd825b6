/** The search in the log finds what passes its filter, in both directions, and reads no more than it says. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { PageStart } from '../../src/database/list.js'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import { type EventSearch, searchEvents } from '../../src/reports/event-search.js'
import { createReportRunner } from '../../src/reports/report.js'
import { atEnd } from '../support/at-end.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { EVENT } from '../support/events.js'
import { long } from '../support/long.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const MINUTE_MS = 60_000
const RULES = ['', 'login', 'search']
/** Names may have signs within, and letters of either case. */
const RULE_LISTS = ['+login:-team-a', '-search:+Team', '+all+:+search:+team-a']
const CLIENTS = [
  'ip:203.0.113.7',
  'ip:203.0.113.70',
  'ip:203.0.115.1',
  'user:1007',
  'header:x-api-key:1007',
  'user:7|ip:203.0.113.7',
]

/** Events of all outcomes, of clients under several policies, some at the same moment. */
function variedEvents(count: number): RateLimitEvent[] {
  return Array.from({ length: count }, (_, number) => {
    const client = CLIENTS[number % CLIENTS.length] ?? ''
    const ruleName = RULES[number % RULES.length] ?? ''
    const value = client.replace(/^(?:ip:|header:x-api-key:)/, '').replace('|ip:', '|')
    const [outcome, allowed] = (
      [
        ['allowed', true],
        ['over_limit', false],
        ['denied', false],
        ['unavailable', false],
        ['over_limit', true],
        ['allowed', true],
        ['allowed', true],
      ] as const
    )[number % 7] ?? ['allowed', true]
    return {
      ...EVENT,
      timestampMs: NOW_MS - Math.floor(number / 3) * MINUTE_MS,
      client,
      key: ruleName === '' ? (client.startsWith('header:') ? `header:${value}` : client) : `rule:${ruleName}:${value}`,
      ruleName,
      policy: ruleName === '' ? 'default' : ruleName,
      outcome,
      allowed,
      path: number % 5 === 0 ? '/login/a' : '/orders',
      method: number % 2 === 0 ? 'GET' : 'POST',
      rules: RULE_LISTS[number % 11] ?? '',
    }
  })
}

forEachDatabase((provider, open) => {
  async function start(t: TestContext) {
    const clock = fakeClock(NOW_MS)
    const opened = await open(clock)
    atEnd(t, opened.close)
    const { database } = opened
    const read = createReportRunner(database, clock)
    const insert = (events: readonly RateLimitEvent[]) =>
      database.log.execute(insertEventsSql(database.log.dialect), [JSON.stringify(events.map(eventValues))])
    const page = async (search: EventSearch, from: PageStart | undefined, limit: number) => {
      const found = await read(searchEvents(search, from, limit))
      assert.ok(found !== undefined, JSON.stringify(search))
      return found
    }
    /** Reads all pages in a direction, from a position or the newest. */
    const all = async (search: EventSearch, limit: number, from?: PageStart) => {
      const side = from?.side ?? 'after'
      const ids: number[] = []
      for (let next = from; ; ) {
        const { events, next: position } = await page(search, next, limit)
        const shown = events.map(({ id }) => id)
        ids.push(...(side === 'after' ? shown : shown.reverse()))
        if (position === undefined) return ids
        next = { position, side }
      }
    }
    /** Explains the statements that read the events of a search. */
    const plansOf = async (search: EventSearch, from: PageStart | undefined) => {
      const plans: string[] = []
      await read((snapshot) =>
        searchEvents(
          search,
          from,
          50,
        )({
          ...snapshot,
          query: async (sql, parameters) => {
            if (/AS found FROM/.test(sql)) {
              const explain = provider === 'sqlite' ? 'EXPLAIN QUERY PLAN' : 'EXPLAIN'
              plans.push(JSON.stringify(await snapshot.query(`${explain} ${sql}`, parameters), undefined, 1))
            }
            return snapshot.query(sql, parameters)
          },
        }),
      )
      return plans
    }
    return { ...opened, read, insert, page, all, plansOf }
  }

  test('every filter finds in pages what the fields of the events say, older and newer', long(), async (t) => {
    const { insert, page, all } = await start(t)
    await insert(variedEvents(420))
    const { events } = await page({}, undefined, 1_000)
    assert.equal(events.length, 420)
    const [sinceMs, untilMs] = [NOW_MS - 100 * MINUTE_MS, NOW_MS - 20 * MINUTE_MS]
    type Meant = (event: (typeof events)[number]) => boolean
    const of = (outcome: string, allowed: boolean): Meant => {
      return (event) => event.outcome === outcome && Boolean(event.allowed) === allowed
    }
    const searches: readonly (readonly [EventSearch, Meant])[] = [
      [{}, () => true],
      ...['user:1007', ' 1007 '].map(
        (client) => [{ client }, (event) => event.client === 'user:1007'] as [EventSearch, Meant],
      ),
      ...['203.0.113.7', 'ip:203.0.113.7', '203.0.113.7:80'].map((client) => {
        return [{ client }, (event) => event.client === 'ip:203.0.113.7'] as [EventSearch, Meant]
      }),
      [{ client: '203.0.113.0/24' }, ({ client }) => client.startsWith('ip:203.0.113.')],
      [{ client: '203.0.113.0/26' }, ({ client }) => client === 'ip:203.0.113.7'],
      [
        { client: '203.0.112.0/22', outcome: 'denied' },
        (event) => /^ip:/.test(event.client) && event.outcome === 'denied',
      ],
      [{ client: 'rule:login:203.0.113.70' }, ({ key }) => key === 'rule:login:203.0.113.70'],
      [{ client: 'ip:192.0.2.1' }, () => false],
      [{ policy: 'login' }, ({ policy, rules }) => policy === 'login' || rules === '+login:-team-a'],
      [{ policy: 'team-a' }, ({ rules }) => rules.includes('team-a')],
      [{ policy: 'Team' }, ({ rules }) => rules === '-search:+Team'],
      [{ policy: 'all+' }, ({ rules }) => rules.startsWith('+all+')],
      ...['team', 'login:-team-a', '%', 'all', ''].map((policy) => [{ policy }, () => false] as [EventSearch, Meant]),
      [{ policy: 'default' }, ({ policy }) => policy === 'default'],
      [{ path: '/login' }, ({ path }) => path.startsWith('/login')],
      [{ path: '/login%' }, () => false],
      [{ method: 'POST' }, ({ method }) => method === 'POST'],
      [{ allowed: false }, ({ allowed }) => !allowed],
      [{ outcome: 'over_limit', allowed: false }, of('over_limit', false)],
      [{ outcome: 'over_limit', allowed: true }, of('over_limit', true)],
      [{ outcome: 'denied' }, of('denied', false)],
      [{ outcome: 'unavailable' }, of('unavailable', false)],
      [{ outcome: 'allowed' }, of('allowed', true)],
      [{ sinceMs, untilMs }, ({ timestampMs }) => timestampMs >= sinceMs && timestampMs < untilMs],
      [
        { client: '203.0.113.7', policy: 'default', allowed: false, path: '/', method: 'GET', sinceMs },
        ({ client, policy, allowed, method, timestampMs }) =>
          client === 'ip:203.0.113.7' && policy === 'default' && !allowed && method === 'GET' && timestampMs >= sinceMs,
      ],
    ]
    for (const [search, isMeant] of searches) {
      const expected = events.filter(isMeant).map(({ id }) => id)
      for (const limit of [7, 500]) {
        assert.deepEqual(await all(search, limit), expected, `${JSON.stringify(search)} by ${limit}`)
        const oldest = { position: [0, 0], side: 'before' } as const
        const newer = (await all(search, limit, oldest)).reverse()
        assert.deepEqual(newer, expected, `${JSON.stringify(search)} from the oldest by ${limit}`)
      }
    }
  })

  test('a search whose filter little passes reads a part of the log, says how far, and goes on there', async (t) => {
    const { insert, page } = await start(t)
    const old = {
      ...EVENT,
      path: '/old',
      method: 'PUT',
      timestampMs: NOW_MS - 10 * 3_600_000,
      key: 'user:7',
      client: 'user:7',
    }
    await insert([old, { ...old, key: 'user:8', client: 'user:8', allowed: false, outcome: 'over_limit' }])
    for (let part = 0; part < 5; part++) {
      const timestampMs = NOW_MS - part * MINUTE_MS
      await insert(Array.from({ length: 5_000 }, () => ({ ...EVENT, timestampMs, key: 'user:7', client: 'user:7' })))
    }
    for (const search of [
      { path: '/old' },
      { method: 'PUT' },
      { policy: 'none' },
      { client: '7', path: '/old' },
    ] as const) {
      const first = await page(search, undefined, 50)
      assert.deepEqual(first.events, [], JSON.stringify(search))
      assert.ok(first.isBounded)
      assert.ok(first.next !== undefined && first.next[0] > old.timestampMs)
    }
    const behind = { position: [NOW_MS - 4 * MINUTE_MS, 0], side: 'after' } as const
    assert.equal((await page({ path: '/old' }, behind, 50)).events.length, 2)
    // What an index has is found at once, however much lies before it.
    for (const search of [{ client: 'user:8' }, { allowed: false }, { untilMs: NOW_MS - 3_600_000 }] as const) {
      const { events, isBounded } = await page(search, undefined, 50)
      assert.ok(events.length > 0 && !isBounded, JSON.stringify(search))
    }
  })

  test('more clients of a network than a page lists are found page by page, each event once', async (t) => {
    const { insert, all, page } = await start(t)
    const events = Array.from({ length: 250 }, (_, number) => {
      const address = `203.0.113.${number}`
      return { ...EVENT, timestampMs: NOW_MS - (number % 9) * MINUTE_MS, key: `ip:${address}`, client: `ip:${address}` }
    })
    await insert([...events, ...events])
    const { events: every } = await page({}, undefined, 1_000)
    assert.deepEqual(
      await all({ client: '203.0.113.0/24' }, 50),
      every.map(({ id }) => id),
    )
  })

  test('a network of IPv6 has its addresses, however they are spelled, and those of no other', async (t) => {
    const { insert, page } = await start(t)
    const addresses = ['2001:db8::1', '2001:db8:0:7::/64', '2001:db8:1::1', '2001:db9::1', '203.0.113.7']
    await insert(
      addresses.map((address) => ({ ...EVENT, timestampMs: NOW_MS, key: `ip:${address}`, client: `ip:${address}` })),
    )
    const { events } = await page({ client: '2001:db8::/48' }, undefined, 50)
    assert.deepEqual(events.map(({ client }) => client).sort(), ['ip:2001:db8:0:7::/64', 'ip:2001:db8::1'])
  })

  test('every filter reads by an index in the order of time', long(), async (t) => {
    const { insert, plansOf, database } = await start(t)
    for (let part = 0; part < 6; part++) await insert(variedEvents(3_500))
    if (database.log.dialect.provider === 'postgresql')
      await database.log.execute(`ANALYZE ${database.log.dialect.table('rate_limit_event')}`)
    const from = { position: [NOW_MS - MINUTE_MS, 9], side: 'after' } as const
    for (const [search, index] of [
      [{}, 'timestamp'],
      [{ path: '/login' }, 'timestamp'],
      [{ policy: 'login', method: 'GET' }, 'timestamp'],
      [{ sinceMs: NOW_MS - 9 * MINUTE_MS, untilMs: NOW_MS }, 'timestamp'],
      [{ allowed: false }, 'allowed_timestamp_outcome_weight'],
      [{ outcome: 'denied', path: '/login' }, 'allowed_timestamp_outcome_weight'],
      [{ client: 'user:1007' }, 'key_timestamp'],
      [{ client: 'user:1007', path: '/login', outcome: 'denied' }, 'key_timestamp'],
      [{ client: '203.0.113.0/24', allowed: false }, 'key_timestamp'],
    ] as const) {
      for (const each of [undefined, from, { ...from, side: 'before' } as const]) {
        const plans = await plansOf(search, each)
        assert.ok(plans.length > 0)
        for (const plan of plans) {
          assert.match(plan, new RegExp(`rate_limit_event_${index}_idx`), `${JSON.stringify(search)}\n${plan}`)
          assert.doesNotMatch(plan, /SCAN rate_limit_event(?! USING)|Seq Scan on rate_limit_event/, plan)
        }
      }
    }
  })
})
