/** The store goes away while requests reserve and charge: each client has used what it was charged, no more and no less. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyRequest } from 'fastify'
import type { RateLimitOptions, RouteLimitOptions } from '../../src/index.js'
import { startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openNamedPostgresql } from '../support/named-postgresql.js'
import { ownRedisMissing, startOwnRedis } from '../support/own-redis.js'
import { startProxyBefore, type TcpProxy } from '../support/tcp-proxy.js'

const STORE_TIMEOUT_MS = 400
const RESERVE = 1_000
/** What requests charge, one after the other: less than is reserved, more, and nothing. */
const CHARGES = [[100], [1_500], [300, 900], [0], [999, 1, 1], [2_400], [1, 1]]
const TOKENS = { key: 'user', unit: 'tokens', reserve: RESERVE, shared: true } as const
const LIMITS: readonly (RouteLimitOptions & { readonly name: string })[] = [
  { ...TOKENS, name: 'fixed', rate: '10000000/d' },
  { ...TOKENS, name: 'list', rate: '10000000/d, 90000000/month' },
  { ...TOKENS, name: 'sliding', rate: '10000000/d', algorithm: 'sliding_window' },
  // It drains too slowly to be seen here.
  { ...TOKENS, name: 'bucket', rate: '100000/366d', algorithm: 'token_bucket' },
]
/** Longer than late answers, and than what is owed may take. */
const SETTLED_MS = 1_500

interface Outage {
  begin(): unknown
  end(): unknown
}

/** Starts a server that the store can be taken from, and another one that always reaches it. */
async function setUp(t: TestContext, plugin: RateLimitOptions, direct: RateLimitOptions) {
  const clock = fakeClock()
  let gate: Promise<void> = Promise.resolve()
  let running = 0
  const start = (options: RateLimitOptions) =>
    startApp(t, {
      clock,
      database: null,
      plugin: {
        user: ({ headers }) => ({ id: String(headers['x-user']) }),
        ...options,
        middleware: { defaultRate: '1000000/h', ...options.middleware },
      },
      routes(app) {
        app.get('/', async () => 'ok')
        for (const options of LIMITS) {
          const limit = app.smartRateLimit.limit(options)
          app.get(`/${options.name}`, { onRequest: limit }, async (request: FastifyRequest) => {
            running++
            await gate
            for (const tokens of JSON.parse(String(request.headers['x-charges']))) {
              await app.smartRateLimit.charge(request, { tokens })
            }
            running--
            return 'ok'
          })
          app.get(`/${options.name}/count`, async (request) => (await limit.peek(request))?.count)
        }
      },
    })
  const [server, reader] = [await start({ ...plugin, storeTimeoutMs: STORE_TIMEOUT_MS }), await start(direct)]
  const used = new Map<string, number>()
  let round = 0

  /** Sends requests of new users and of those there are, at once, and waits for the answers. */
  async function use(): Promise<void> {
    round++
    const asked = LIMITS.flatMap(({ name }) =>
      CHARGES.flatMap((charges, index) =>
        ['old', `new-${round}`].map(async (whose) => {
          const user = `${whose}-${index}`
          const key = `${name} ${user}`
          const headers = { 'x-user': user, 'x-charges': JSON.stringify(charges) }
          assert.equal((await server.request(`/${name}`, { headers })).status, 200)
          used.set(key, (used.get(key) ?? 0) + charges.reduce((sum, amount) => sum + amount, 0))
        }),
      ),
    )
    await Promise.all(asked)
  }

  async function counted(): Promise<Map<string, number>> {
    const counts = new Map<string, number>()
    for (const key of used.keys()) {
      const [name, user = ''] = key.split(' ')
      counts.set(key, Number((await reader.request(`/${name}/count`, { headers: { 'x-user': user } })).text))
    }
    return counts
  }

  /** Waits until the store has counted exactly what was used, and looks once more when all is over. */
  async function proveExact(): Promise<void> {
    /** What is counted and used, where these differ. */
    async function differences() {
      const counts = await counted()
      return [...used]
        .map(([key, amount]) => [key, counts.get(key), amount])
        .filter(([, count, amount]) => count !== amount)
    }
    let wrong: Awaited<ReturnType<typeof differences>> = []
    await eventually('the store has counted what was used', async () => {
      clock.advance(1_000)
      await server.request('/', { headers: { 'x-user': 'somebody else' } })
      wrong = await differences()
      return wrong.length === 0
    }).catch(() => assert.deepEqual(wrong, []))
    await delay(SETTLED_MS)
    clock.advance(1_000)
    await server.request('/', { headers: { 'x-user': 'somebody else' } })
    await delay(100)
    assert.deepEqual(await differences(), [])
    const { checks } = await server.app.smartRateLimit.health()
    assert.equal(
      checks.charges.detail,
      '0 charges and 0 refunds owed to the store; 0 charges and 0 refunds lost since the start',
    )
  }

  return {
    use,
    proveExact,
    /** Holds all requests in their handlers. */
    async held<Answer>(work: () => Promise<Answer>): Promise<Answer> {
      let open: () => void = () => undefined
      gate = new Promise((resolve) => {
        open = resolve
      })
      const asked = use()
      await eventually('all requests are in their handlers', () => running === 2 * LIMITS.length * CHARGES.length)
      const answer = await work()
      open()
      await asked
      return answer
    },
  }
}

type Server = Awaited<ReturnType<typeof setUp>>

/** The store is away as requests end that it has reserved for. */
async function proveEnds({ use, held, proveExact }: Server, { begin, end }: Outage): Promise<void> {
  await use()
  await held(async () => begin())
  await delay(SETTLED_MS)
  await end()
  await proveExact()
}

/** The store goes away before requests are checked, or while they are, and comes back when they have ended. */
async function proveChecks({ use, proveExact }: Server, { begin, end }: Outage, endsAfterMs?: number): Promise<void> {
  await use()
  await begin()
  const asked = use()
  if (endsAfterMs === undefined) await asked
  else await delay(endsAfterMs)
  await end()
  await asked
  await proveExact()
}

/** What a router that drops packets does: nothing arrives, and the connections die later. */
function dropped(proxy: TcpProxy): Outage {
  return {
    begin: () => proxy.hang(),
    async end() {
      await proxy.switchOff()
      await proxy.switchOn()
    },
  }
}

/** A server that refuses connections, and has broken those there were. */
function refused(proxy: TcpProxy): Outage {
  return { begin: () => proxy.switchOff(), end: () => proxy.switchOn() }
}

describe('on Redis', { skip: ownRedisMissing }, () => {
  async function open(t: TestContext) {
    const { url, signal } = await startOwnRedis(t)
    const { proxy, url: reached } = await startProxyBefore(t, url.href, 6379)
    const plugin = { middleware: { backend: 'redis' } } as const
    const server = await setUp(t, { ...plugin, redis: reached }, { ...plugin, redis: url.href })
    const frozen: Outage = { begin: () => signal('SIGSTOP'), end: () => signal('SIGCONT') }
    return { server, proxy, frozen }
  }

  test('what is not used is given back where it is frozen as responses end', long(), async (t) => {
    const { server, frozen } = await open(t)
    await proveEnds(server, frozen)
    await proveEnds(server, frozen)
  })

  test('what is not used is given back where it is gone as responses end', long(), async (t) => {
    const { server, proxy } = await open(t)
    await proveEnds(server, refused(proxy))
    await proveEnds(server, dropped(proxy))
  })

  test('checks that it answers too late, or when their requests have ended, are charged once', long(), async (t) => {
    const { server, frozen } = await open(t)
    await proveChecks(server, frozen)
    await proveChecks(server, frozen, STORE_TIMEOUT_MS + 200)
    await proveChecks(server, frozen, STORE_TIMEOUT_MS - 200)
  })

  test('checks that never reach it are charged whole, whenever their connection dies', long(), async (t) => {
    const { server, proxy } = await open(t)
    await proveChecks(server, dropped(proxy), STORE_TIMEOUT_MS - 200)
    await proveChecks(server, dropped(proxy))
    await proveChecks(server, refused(proxy))
  })
})

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  async function open(t: TestContext) {
    const { url, direct, schema, proxy, name, sql, lock } = await openNamedPostgresql(t)
    const plugin = { schema, middleware: { backend: 'database' } } as const
    const server = await setUp(t, { ...plugin, database: url }, { ...plugin, database: direct })
    const end = () => sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [name])
    const slow: Outage = { begin: () => proxy.slowDown(2 * STORE_TIMEOUT_MS), end: () => proxy.slowDown(0) }
    return { server, proxy, slow, end, lock }
  }

  test('what is not used is given back where it is gone as responses end', long(), async (t) => {
    const { server, proxy, end } = await open(t)
    await proveEnds(server, refused(proxy))
    await proveEnds(server, dropped(proxy))
    await proveEnds(server, { begin: end, end: () => undefined })
  })

  test('checks that it answers too late are charged once, and what is not used is given back', long(), async (t) => {
    const { server, slow } = await open(t)
    await proveChecks(server, slow)
    await proveEnds(server, slow)
  })

  test('checks that it never carries out are charged whole, whenever their connection dies', long(), async (t) => {
    const { server, proxy, end, lock } = await open(t)
    await proveChecks(server, dropped(proxy), STORE_TIMEOUT_MS - 200)
    await proveChecks(server, dropped(proxy))
    let unlock: () => unknown = () => undefined
    await proveChecks(
      server,
      {
        async begin() {
          unlock = await lock('rate_limit_counter')
        },
        async end() {
          await end()
          await unlock()
        },
      },
      100,
    )
  })
})
