/** Events as the API lists them: filtered, page by page, each once. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { eventValues, insertEventsSql, type RateLimitEvent } from '../../src/log/event.js'
import { startWithApi } from '../support/api-app.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase, type Provider, type TestDatabase } from '../support/databases.js'
import { EVENT } from '../support/events.js'
import { long } from '../support/long.js'

const BAD = 'ip:203.0.113.7'
const SECRET = 'a secret of the host, long enough'
const HOUR_MS = 3_600_000

interface ShownEvent {
  readonly id: number
  readonly timestamp: string
  readonly key: string
  readonly client: string
  readonly policy: string
  readonly outcome: string
  readonly allowed: boolean
  readonly path: string
  readonly method: string
  readonly rules: string
}

async function insert({ log: database }: TestDatabase, events: readonly Partial<RateLimitEvent>[]): Promise<void> {
  const rows = events.map((event) => eventValues({ ...EVENT, ...event }))
  await database.execute(insertEventsSql(database.dialect), [JSON.stringify(rows)])
}

/** Events of all outcomes, of clients under several policies, many of them at the same moment. */
function variedEvents(nowMs: number): Partial<RateLimitEvent>[] {
  const clients = [BAD, 'ip:203.0.113.70', 'user:7', 'header:x-api-key:7', 'user:7|ip:203.0.113.7']
  return Array.from({ length: 240 }, (_, number) => {
    const client = clients[number % clients.length] ?? BAD
    const outcome = (['allowed', 'allowed', 'over_limit', 'denied', 'over_limit', 'unavailable', 'allowed'] as const)[
      number % 7
    ]
    const rule = number % 3 === 0 ? 'login' : ''
    const value = client.replace(/^(?:ip:|header:x-api-key:)/, '')
    return {
      timestampMs: nowMs - Math.floor(number / 4) * 60_000,
      client,
      key: rule === '' ? client : `rule:${rule}:${value}`,
      ruleName: rule,
      policy: rule === '' ? 'default' : rule,
      // One of two that are over the limit is let through.
      allowed: outcome === 'allowed' || number % 7 === 4,
      outcome: outcome ?? 'allowed',
      path: number % 5 === 0 ? '/login/a' : '/orders',
      method: number % 2 === 0 ? 'GET' : 'POST',
      rules: number % 9 === 0 ? '+login:-team' : '',
    }
  })
}

/** Rules of several groups apply to a request, of which one decides. */
function isOfLogin({ policy, rules }: Pick<ShownEvent, 'policy' | 'rules'>): boolean {
  return policy === 'login' || rules === '+login:-team'
}

async function start(t: TestContext, provider: Provider, plugin = {}) {
  const started = await startWithApi(t, provider, { plugin })
  const { call } = started
  const page = async (query: Readonly<Record<string, string>>) => {
    const { status, json, text } = await call('GET', `/events?${new URLSearchParams(query)}`, { as: 'viewer' })
    assert.equal(status, 200, text)
    return json as { readonly items: readonly ShownEvent[]; readonly nextCursor: string | null }
  }
  const readAll = async (query: Readonly<Record<string, string>>, limit = 1_000, between = async () => {}) => {
    const listed: ShownEvent[] = []
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const { items, nextCursor } = await page({ ...query, limit: String(limit), ...(cursor && { cursor }) })
      listed.push(...items)
      cursor = nextCursor
      await between()
    }
    return listed
  }
  return { ...started, page, readAll }
}

forEachDatabase((provider) => {
  test(
    'every filter, and all together, list what the fields of the events say, the newest first',
    long(),
    async (t) => {
      const { database, clock, readAll } = await start(t, provider)
      const nowMs = clock.now()
      await insert(database, variedEvents(nowMs))
      const all = await readAll({})
      assert.equal(all.length, 240)
      const order = all.map(({ timestamp, id }) => `${timestamp} ${String(id).padStart(9, '0')}`)
      assert.deepEqual(order, order.toSorted().reverse())
      const since = new Date(nowMs - 30 * 60_000).toISOString()
      const until = new Date(nowMs - 5 * 60_000).toISOString()
      const tests: readonly (readonly [Record<string, string>, (event: ShownEvent) => boolean])[] = [
        [{ key: BAD }, ({ key }) => key === BAD],
        ...[BAD, '203.0.113.7', 'ip:::ffff:203.0.113.7'].map((client): (typeof tests)[number] => [
          { client },
          (event) => event.client === BAD,
        ]),
        [{ client: 'user:7' }, ({ client }) => client === 'user:7'],
        [{ client: '7' }, ({ client }) => client === 'user:7'],
        [{ client: 'header:x-api-key:7' }, ({ client }) => client === 'header:x-api-key:7'],
        [{ client: 'ip:192.0.2.1' }, () => false],
        // An address of a network is compared by its bits, not by its beginning.
        ...['203.0.113.0/24', 'ip:203.0.113.9/24', '203.0.112.0/22'].map((client): (typeof tests)[number] => [
          { client },
          (event) => event.client.startsWith('ip:203.0.113.'),
        ]),
        [{ client: '203.0.113.0/28' }, ({ client }) => client === BAD],
        [{ client: '203.0.113.0/24', policy: 'login' }, (event) => /^ip:203\./.test(event.client) && isOfLogin(event)],
        [{ client: '203.0.114.0/23' }, () => false],
        [{ policy: 'login' }, isOfLogin],
        [{ policy: 'team' }, ({ rules }) => rules === '+login:-team'],
        ...['allowed', 'over_limit', 'denied', 'unavailable'].map((outcome): (typeof tests)[number] => [
          { outcome },
          (event) => event.outcome === outcome,
        ]),
        [{ allowed: 'false' }, ({ allowed }) => !allowed],
        [{ allowed: 'true', outcome: 'over_limit' }, ({ allowed, outcome }) => allowed && outcome === 'over_limit'],
        [{ allowed: 'true', outcome: 'denied' }, () => false],
        [{ path: '/login' }, ({ path }) => path.startsWith('/login')],
        [{ path: '/login%' }, () => false],
        [{ method: 'POST' }, ({ method }) => method === 'POST'],
        [{ since, until }, ({ timestamp }) => timestamp >= since && timestamp < until],
        [
          { client: BAD, policy: 'login', outcome: 'over_limit', path: '/', method: 'GET', since },
          ({ client, outcome, method, timestamp, ...event }) =>
            client === BAD && isOfLogin(event) && outcome === 'over_limit' && method === 'GET' && timestamp >= since,
        ],
      ]
      for (const [query, isMeant] of tests) {
        const expected = all.filter(isMeant).map(({ id }) => id)
        for (const limit of [7, 1_000]) {
          const listed = (await readAll(query, limit)).map(({ id }) => id)
          assert.deepEqual(listed, expected, `${JSON.stringify(query)} by ${limit}`)
        }
      }
    },
  )

  test(
    'a list has every event once, whatever is logged meanwhile, before its place and behind it',
    long(),
    async (t) => {
      const { database, clock, readAll } = await start(t, provider)
      const nowMs = clock.now()
      await insert(database, variedEvents(nowMs))
      for (const query of [{}, { client: BAD }, { outcome: 'over_limit' }]) {
        const before = await readAll(query)
        const listed = await readAll(query, 7, async () => {
          const late = { outcome: 'over_limit', allowed: false, path: '/late' } as const
          await insert(database, [
            { ...late, timestampMs: nowMs },
            { ...late, timestampMs: nowMs - 2 * HOUR_MS },
          ])
        })
        const ids = listed.map(({ id }) => id)
        assert.equal(new Set(ids).size, ids.length)
        const known = new Set(before.map(({ id }) => id))
        const found = ids.filter((id) => known.has(id))
        assert.deepEqual(found, [...known], JSON.stringify(query))
        assert.equal(listed.at(-1)?.path, '/late', 'what came late is behind')
      }
    },
  )

  test('events of a key, a client or an outcome are looked up in an index', async (t) => {
    const { database, clock, page } = await start(t, provider)
    const nowMs = clock.now()
    await insert(database, variedEvents(nowMs))
    const others = Array.from({ length: 5_000 }, (_, number) => ({
      timestampMs: nowMs - number * 1_000,
      key: `user:${number % 500}`,
      client: `user:${number % 500}`,
    }))
    await insert(database, others)
    // Not all that the server has, such as the schemas of other tests.
    await database.log.execute(`ANALYZE ${database.log.dialect.table('rate_limit_event')}`)
    for (const [filter, index] of [
      [{}, 'timestamp'],
      [{ key: BAD }, 'key'],
      [{ client: BAD }, 'key'],
      [{ outcome: 'denied' }, 'allowed'],
      [{ outcome: 'over_limit' }, 'allowed'],
      [{ allowed: 'false' }, 'allowed'],
    ] as const) {
      const counted = countStatements()
      await page(filter)
      counted.stop()
      const [sql = ''] = counted.of('rate_limit_event').filter((text) => /ORDER BY "timestamp" DESC/.test(text))
      const used = await planOf(database, sql)
      assert.match(used, new RegExp(`rate_limit_event_${index}_`), `${JSON.stringify(filter)}: ${used}`)
    }
  })

  test('with pseudonyms a client is found by its address, and there are no networks', async (t) => {
    const { call, request, readAll } = await start(t, provider, {
      privacy: { addresses: 'pseudonym' },
      hashSecret: SECRET,
    })
    for (const from of ['203.0.113.7', '203.0.113.8', '2001:db8::1']) await request('/', { from })
    const all = await readAll({})
    assert.equal(all.length, 3)
    for (const client of [BAD, '203.0.113.7', all[2]?.client ?? '']) {
      assert.deepEqual(
        (await readAll({ client })).map(({ id }) => id),
        [all[2]?.id],
        client,
      )
    }
    assert.equal((await readAll({ client: '2001:db8::2' })).length, 1, 'of the same network')
    assert.equal((await readAll({ key: BAD })).length, 1)
    const network = await call('GET', '/events?client=203.0.113.0/24', { as: 'viewer' })
    assert.equal(network.status, 400)
  })
})

/** Returns how the database would run a statement of one of its own. */
async function planOf({ log: database }: TestDatabase, sql: string): Promise<string> {
  const asked = sql.replace(/((?:_each|_elements|_text)\(+|= )?\$\d+/g, (_, before = '') => {
    if (before === '') return '8'
    return `${before}${before === '= ' ? `'${BAD}'` : `'[["${BAD}"]]'`}`
  })
  if (database.dialect.provider === 'sqlite') {
    return JSON.stringify(await database.query(`EXPLAIN QUERY PLAN ${asked}`))
  }
  return database.snapshot(async (query) => {
    await query('SET LOCAL enable_seqscan = off')
    return JSON.stringify(await query(`EXPLAIN ${asked}`))
  })
}
