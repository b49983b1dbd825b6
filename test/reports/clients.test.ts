/** One client over all limits: its counts, what is in force for it, and how it is found. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { InvalidSettingError } from '../../src/ground/errors.js'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { CooperativeYield } from '../../src/ground/time/cooperative-yield.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { dashboardReport } from '../../src/reports/dashboard-report.js'
import { findClients } from '../../src/reports/find-clients.js'
import { latestRequests } from '../../src/reports/latest-requests.js'
import { createReportRunner } from '../../src/reports/report.js'
import { topNetworks } from '../../src/reports/top-networks.js'
import { asActor } from '../../src/rules/history/actor.js'
import { atEnd } from '../support/at-end.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logRows } from '../support/events.js'
import { long } from '../support/long.js'
import { foldRollups } from '../support/rollups.js'

const NOW_MS = Date.UTC(2030, 0, 15, 12, 34, 56, 789)
const REFUSED = { allowed: false, count: 6, outcome: 'over_limit' } as const
const WOULD_BE = { count: 6, outcome: 'over_limit' } as const
const DENIED = { allowed: false, count: 1, limit: 0, outcome: 'denied', policy: 'override' } as const

function by(client: string, key = client, its: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent> {
  const [, ruleName = ''] = /^rule:([^:]+):/.exec(key) ?? []
  return { timestampMs: NOW_MS - MINUTE_MS, client, key, ruleName, policy: ruleName || 'default', ...its }
}

/** As every kind of key is logged. */
const SPELLED: readonly (readonly [client: string, key: string])[] = [
  ['ip:203.0.113.50', 'ip:203.0.113.50'],
  ['ip:203.0.113.50', 'rule:login:203.0.113.50'],
  ['ip:2001:db8:1:2::/64', 'rule:login:2001:db8:1:2::/64'],
  ['user:7', 'user:7'],
  ['user:7', 'rule:api:user:7'],
  ['header:x-key:7', 'rule:keys:7'],
  ['cookie:sid:abc', 'cookie:sid'],
  ['cookie:sid:abc', 'rule:keys:abc'],
  ['route:/items/:id', 'rule:routes:/items/:id'],
  ['key:tenant-7', 'tenant-7'],
  ['all', 'rule:everybody:all'],
  ['ip:203.0.113.50|header:x-key:a\\|b', 'rule:both:203.0.113.50|a\\|b'],
  ['header:x-key:a|b', 'rule:keys:a|b'],
  ["user:' OR 1=1 --%_", "rule:api:user:' OR 1=1 --%_"],
]

forEachDatabase((_provider, open) => {
  test('a client has all its events, whatever their keys, and those of no other client', async (t) => {
    const { database, client: prisma, analytics } = await start(t)
    // A key alone identifies nobody.
    const strangers = SPELLED.map(([, key]) => by('key:stranger', key, REFUSED))
    for (const isFolded of [false, true]) {
      await logRows(
        database,
        SPELLED.flatMap(([client, key]) => [by(client, key), by(client, key, REFUSED)]),
      )
      await logRows(database, strangers)
      if (isFolded) await foldRollups(database, NOW_MS)
      const rounds = isFolded ? 2 : 1
      for (const name of new Set(SPELLED.map(([client]) => client))) {
        // Cookies are logged as `cookie:<value>`: the row with the name instead is not theirs.
        const keys = SPELLED.filter(([client, key]) => client === name && key !== 'cookie:sid').length
        const found = await analytics.getClient({ client: name })
        assert.deepEqual([found.requests, found.over_limit], [2 * keys * rounds, keys * rounds], name)
      }
    }
    assert.equal((await prisma.rateLimitEvent.findMany()).length, SPELLED.length * 6)
  })

  test('a client is told by policy, path, time and event, with denials and would-be refusals apart', async (t) => {
    const { database, analytics } = await start(t)
    const client = 'ip:203.0.113.50'
    await logRows(database, [
      by(client, client, { timestampMs: NOW_MS - 3 * HOUR_MS, path: '/old' }),
      ...Array(3).fill(by(client, 'rule:login:203.0.113.50', { ...REFUSED, path: '/login' })),
      ...Array(2).fill(by(client, client, { ...WOULD_BE, path: '/search' })),
      by(client, client, { ...DENIED, path: '/login' }),
      by(client, client, { allowed: false, outcome: 'unavailable', path: '/search' }),
      by('ip:203.0.113.51', 'ip:203.0.113.51', REFUSED),
    ])
    const found = await analytics.getClient({ client, days: 1 / 24, recent: 2 })
    const { requests, over_limit, would_be, denied } = found
    assert.deepEqual({ requests, over_limit, would_be, denied }, { requests: 7, over_limit: 3, would_be: 2, denied: 1 })
    assert.deepEqual(
      found.by_policy.map(({ last_seen: _, ...policy }) => policy),
      [
        { policy: 'default', requests: 3, over_limit: 0, would_be: 2, denied: 0, count: 1, limit: 5 },
        { policy: 'login', requests: 3, over_limit: 3, would_be: 0, denied: 0, count: 6, limit: 5 },
        { policy: 'override', requests: 1, over_limit: 0, would_be: 0, denied: 1, count: 1, limit: 0 },
      ],
    )
    assert.deepEqual(found.by_path, [
      { path: '/login', requests: 4, over_limit: 3, would_be: 0, denied: 1 },
      { path: '/search', requests: 3, over_limit: 0, would_be: 2, denied: 0 },
    ])
    assert.equal(found.timeline.bar_ms, MINUTE_MS)
    assert.equal(found.timeline.bars.length, 61)
    assert.deepEqual(
      found.timeline.bars.filter((bar) => bar.requests > 0),
      [{ start_ms: Math.floor((NOW_MS - MINUTE_MS) / MINUTE_MS) * MINUTE_MS, requests, over_limit, would_be, denied }],
    )
    assert.deepEqual(
      found.recent_events.map(({ outcome, policy, path, allowed }) => [outcome, policy, path, allowed]),
      [
        ['unavailable', 'default', '/search', false],
        ['denied', 'override', '/login', false],
      ],
    )
    const all = await analytics.getClient({ client })
    assert.equal(all.requests, 8)
    assert.equal(all.first_seen, new Date(NOW_MS - 3 * HOUR_MS).toISOString())
    assert.equal(
      all.timeline.bars.reduce((sum, bar) => sum + bar.requests, 0),
      8,
    )
  })

  test('a client has the overrides in force for it and for its networks, with who, and the changes of those that are over', async (t) => {
    const { client: prisma, analytics } = await start(t)
    const create = (client: string, effect: string, its: object = {}) =>
      asActor('alice', () => prisma.rateLimitOverride.create({ data: { client, effect, ...its } }))
    await create('ip:203.0.113.0/24', 'deny', { note: 'scraper', expiresAt: new Date(NOW_MS + HOUR_MS) })
    await create('ip:203.0.113.50', '20/m', { pathPattern: '^/search' })
    await create('ip:203.0.114.0/24', 'deny')
    await create('user:7', 'allow')
    const ended = await create('ip:203.0.0.0/16', 'deny')
    await prisma.rateLimitOverride.delete({ where: { id: ended.id } })

    const found = await analytics.getClient({ client: 'ip:203.0.113.50' })
    assert.deepEqual(
      found.overrides.map(({ client, effect, path_pattern, note, expires_at, actor }) => {
        return { client, effect, path_pattern, note, expires_at, actor }
      }),
      [
        {
          client: 'ip:203.0.113.50',
          effect: '20/m',
          path_pattern: '^/search',
          note: '',
          expires_at: null,
          actor: 'alice',
        },
        {
          client: 'ip:203.0.113.0/24',
          effect: 'deny',
          path_pattern: '',
          note: 'scraper',
          expires_at: new Date(NOW_MS + HOUR_MS).toISOString(),
          actor: 'alice',
        },
      ],
    )
    assert.deepEqual(
      found.history.map(({ name, action }) => [name, action]),
      [
        ['ip:203.0.0.0/16', 'delete'],
        ['ip:203.0.0.0/16', 'create'],
        ['ip:203.0.113.50', 'create'],
        ['ip:203.0.113.0/24', 'create'],
      ],
    )
    assert.equal(found.requests, 0)
    assert.deepEqual(await analytics.getClient({ client: '203.0.113.50' }), found)
    const both = await analytics.getClient({ client: 'ip:203.0.114.9|user:7' })
    assert.deepEqual(
      both.overrides.map(({ client }) => client),
      ['user:7', 'ip:203.0.114.0/24'],
    )
    const custom = await analytics.getClient({ client: 'key:x|user:7' })
    assert.deepEqual(custom.overrides, [])
  })

  test('a client that is not in the log has zeros and empty lists, and so has any text', async (t) => {
    const { analytics } = await start(t)
    for (const client of ['ip:192.0.2.1', '', '\0', '|', 'ip:', 'ip:999.1.1.1/77', 'ä'.repeat(400), '\\|\\', '💣']) {
      const { by_policy, by_path, recent_events, overrides, history, requests, first_seen } = await analytics.getClient(
        {
          client,
        },
      )
      assert.deepEqual([by_policy, by_path, recent_events, overrides, history], [[], [], [], [], []])
      assert.deepEqual([requests, first_seen], [0, null])
    }
    for (const wrong of [{ client: 'a', days: 0 }, { client: 'a', recent: 0 }, { client: 7 as unknown as string }]) {
      await assert.rejects(analytics.getClient(wrong), InvalidSettingError)
    }
    await assert.rejects(analytics.getTopClients({ by: 'constructor' as 'refused' }), InvalidSettingError)
    assert.throws(() => topNetworks({ by: 'constructor' as 'refused' }), InvalidSettingError)
    assert.deepEqual(await analytics.getTopClients(), [])
    assert.deepEqual(await analytics.getTopClients({ by: 'requests', limit: 5 }), [])
  })

  test('a client whose spelling was cut is found among its keys that were cut elsewhere', async (t) => {
    const { database, analytics } = await start(t)
    const value = 'v'.repeat(300)
    const client = `header:x-api-key:${value}`
    await logRows(database, [by(client, `rule:keys:${value}`, REFUSED)])
    assert.equal((await analytics.getClient({ client })).over_limit, 1)
  })

  test('a search among many rules lets other work go on', async (t) => {
    const { database, read } = await start(t)
    await logRows(
      database,
      Array.from({ length: 500 }, (_, number) => by('user:7', `rule:r${number}:user:7`)),
    )
    // Each look at the clock finds more than a slice.
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => (nowMs += 10))
    const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
    const found = await read(findClients({ text: 'user:7' }))
    assert.deepEqual(
      found.map(({ client, requests }) => [client, requests]),
      [['user:7', 500]],
    )
    assert.ok(mock.callCount() >= 5, `other work could run ${mock.callCount()} times`)
  })

  test(
    'a network with many clients is reported where there are many rules, without a key for each of both',
    long(),
    async (t) => {
      const { database, client: prisma, read } = await start(t)
      const clients = Array.from({ length: 250 }, (_, index) => `ip:203.0.113.${index}`)
      const names = Array.from({ length: 210 }, (_, index) => `rule-${index}`)
      await prisma.rateLimitRule.createMany({ data: names.map((name) => ({ name, pathPattern: '^/', rate: '5/m' })) })
      await logRows(
        database,
        clients.flatMap((client, index) => [
          by(client),
          by(client, `rule:rule-${index % names.length}:${client.slice('ip:'.length)}`, REFUSED),
        ]),
      )
      await logRows(database, [by('ip:203.0.114.7', 'rule:rule-1:203.0.114.7', REFUSED)])
      let longest = 0
      const { window, by_rule } = await read((snapshot) => {
        const query: typeof snapshot.query = (sql, parameters = []) => {
          longest = Math.max(longest, ...parameters.map((value) => String(value).length))
          return snapshot.query(sql, parameters)
        }
        return dashboardReport({ days: 7, filter: { key: '203.0.113.0/24' } })({ ...snapshot, query })
      })
      assert.deepEqual([window.total, window.blocked], [500, 250])
      assert.equal(by_rule.shares.find(({ name }) => name === 'rule-1')?.blocked, 2)
      assert.ok(longest < 200_000, `a statement has a list of ${longest} characters`)
    },
  )

  test('a dashboard sums the traffic of rules and paths in slices', async (t) => {
    const { database, read } = await start(t)
    await logRows(database, [by('ip:203.0.113.50', 'rule:login:203.0.113.50', REFUSED)])
    let nowMs = performance.now()
    t.mock.method(performance, 'now', () => (nowMs += 10))
    const { mock } = t.mock.method(CooperativeYield.prototype, 'pause')
    const { by_rule } = await read(dashboardReport({ days: 7 }))
    assert.deepEqual(
      by_rule.shares.map(({ name, blocked }) => [name, blocked]),
      [['login', 1]],
    )
    assert.ok(mock.callCount() >= 5, `other work could run ${mock.callCount()} times`)
  })

  test('a client is found in any spelling', async (t) => {
    const { database, read } = await start(t)
    await logRows(
      database,
      SPELLED.map(([client, key]) => by(client, key)),
    )
    await logRows(database, [by('ip:203.0.113.50'), by('ip:203.0.113.7'), by('ip:203.0.114.7'), by('ip:10.0.0.1')])
    for (const isFolded of [false, true]) {
      if (isFolded) await foldRollups(database, NOW_MS)
      const find = async (text: string) => (await read(findClients({ text }))).map(({ client }) => client)
      const address = ['ip:203.0.113.50', 'ip:203.0.113.50|header:x-key:a\\|b']
      for (const text of [
        '203.0.113.50',
        ' ip:203.0.113.50 ',
        'IP:203.0.113.50',
        '203.0.113.50:8080',
        '::ffff:203.0.113.50',
        'rule:login:203.0.113.50',
        'rule:gone:203.0.113.50',
      ]) {
        assert.deepEqual(await find(text), address, text)
      }
      assert.deepEqual(await find('user:7'), ['user:7'])
      assert.deepEqual(await find('rule:api:user:7'), ['user:7'])
      assert.deepEqual(await find('7'), ['user:7', 'header:x-key:7'])
      assert.deepEqual(await find('tenant-7'), ['user:tenant-7', 'key:tenant-7'])
      assert.deepEqual(await find('abc'), ['user:abc', 'cookie:sid:abc'])
      assert.deepEqual(await find('rule:keys:abc'), ['cookie:sid:abc'])
      assert.deepEqual(await find('/items/:id'), ['user:/items/:id', 'route:/items/:id'])
      const ipv6 = ['ip:2001:db8:1:2::5', 'ip:2001:db8:1:2::/64']
      for (const text of [
        '2001:db8:1:2::5',
        '2001:DB8:1:2:0:0:0:5',
        '[2001:db8:1:2::5]:443',
        'ip:2001:db8:1:2::5%eth0',
      ]) {
        assert.deepEqual(await find(text), ipv6, text)
      }
      assert.deepEqual(await find('2001:db8::/32'), ['ip:2001:db8::/32', 'ip:2001:db8:1:2::/64'])
      const ofNetwork = ['ip:203.0.113.50', 'ip:203.0.113.50|header:x-key:a\\|b', 'ip:203.0.113.7']
      assert.deepEqual(await find('203.0.113.0/24'), ['ip:203.0.113.0/24', ...ofNetwork])
      assert.deepEqual(await find('ip:203.0.113.9/24'), ['ip:203.0.113.0/24', ...ofNetwork])
      assert.deepEqual(await find('203.0.112.0/22'), ['ip:203.0.112.0/22', ...ofNetwork, 'ip:203.0.114.7'])
      assert.deepEqual(await find('192.0.2.1'), ['ip:192.0.2.1'])
    }
  })

  test('no text is too strange to be searched for', async (t) => {
    const { read } = await start(t)
    for (const text of [
      '',
      '  ',
      '\0',
      '%',
      '_',
      "'; DROP TABLE x --",
      '|',
      'rule:',
      'rule:a:',
      'ip:',
      '1.2.3.4/99',
      'ä'.repeat(9_999),
      '\ud800',
    ]) {
      const found = await read(findClients({ text }))
      assert.ok(found.length <= 1 && found.every(({ requests }) => requests === 0), text)
    }
    assert.throws(() => findClients({ text: 7 as unknown as string }), InvalidSettingError)
    assert.throws(() => findClients({ text: 'a', limit: 0 }), InvalidSettingError)
  })

  test('listed clients have the paths that they requested last under every policy, and a refused request', async (t) => {
    const { database, analytics, read } = await start(t)
    const client = 'ip:203.0.113.50'
    await logRows(database, [
      ...Array(60).fill(by(client, client, { path: '/old', timestampMs: NOW_MS - HOUR_MS })),
      ...Array(49).fill(by(client, client, { path: '/search' })),
      by(client, 'rule:login:203.0.113.50', { ...REFUSED, path: '/login' }),
      by('key:stranger', client, { path: '/stranger' }),
    ])
    const clients = await analytics.getTopClients({ by: 'requests' })
    const paths = await read(latestRequests(clients, { days: 7 }))
    const [refused, stranger] = await database.log.query<{ id: number; at_ms: number }>(
      `SELECT id, "timestamp" AS at_ms FROM ${database.log.dialect.table('rate_limit_event')}
       WHERE path IN ('/login', '/stranger') ORDER BY path`,
    )
    const request = { ...refused, method: 'GET', path: '/login', allowed: false }
    assert.deepEqual(
      [...paths],
      [
        [client, { paths: ['/search', '/login'], request }],
        // Its key is another client's, as a header can spell it.
        [
          'key:stranger',
          { paths: ['/stranger'], request: { ...stranger, method: 'GET', path: '/stranger', allowed: true } },
        ],
      ],
    )
    assert.deepEqual(await read(latestRequests([], { days: 7 })), new Map())
  })

  test('addresses of one network are grouped, IPv4 by /24 and IPv6 by /64', async (t) => {
    const { database, read } = await start(t)
    const twelve = Array.from({ length: 12 }, (_, place) => by(`ip:203.0.113.${place}`, undefined, REFUSED))
    await logRows(database, [
      ...twelve,
      by('ip:203.0.114.1', undefined, REFUSED),
      by('ip:203.0.113.99'),
      ...Array(3).fill(by('ip:2001:db8:1:2::/64', undefined, REFUSED)),
      by('ip:2001:db8:5:6::1', undefined, REFUSED),
      by('ip:2001:db8:5:6::2', undefined, DENIED),
      by('ip:unknown', undefined, REFUSED),
      by('user:7', undefined, REFUSED),
      by('ip:203.0.113.1|user:7', undefined, REFUSED),
    ])
    const expected = [
      ['ip:203.0.113.0/24', 12, 12, 0],
      ['ip:2001:db8:1:2::/64', 1, 3, 0],
      ['ip:2001:db8:5:6::/64', 2, 1, 1],
      ['ip:203.0.114.0/24', 1, 1, 0],
    ]
    for (const isFolded of [false, true]) {
      if (isFolded) await foldRollups(database, NOW_MS)
      const networks = await read(topNetworks())
      assert.deepEqual(
        networks.map(({ network, clients, over_limit, denied }) => [network, clients, over_limit, denied]),
        expected,
      )
      assert.equal((await read(topNetworks({ limit: 1 }))).length, 1)
    }
    const [busiest] = await read(topNetworks({ by: 'requests' }))
    assert.deepEqual([busiest?.network, busiest?.clients, busiest?.requests], ['ip:203.0.113.0/24', 13, 13])
  })

  async function start(t: TestContext) {
    const opened = await open(fakeClock(NOW_MS))
    atEnd(t, opened.close)
    const { database } = opened
    return {
      ...opened,
      analytics: analyticsFor(database, fakeClock(NOW_MS)),
      read: createReportRunner(database, fakeClock(NOW_MS)),
    }
  }
})
