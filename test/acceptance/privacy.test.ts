/** With `privacy` no address of a client is stored: not in the database, in Redis, in the spool, or in the host's log. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, type TestContext, test } from 'node:test'
import Fastify from 'fastify'
import { allDatabases, type Database } from '../../src/database/database.js'
import { type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type TestDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { openRedis, redisMissing } from '../support/redis.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

const SECRET = 'a secret of the host, long enough'
const IPV4 = '203.0.113.77'
const NEIGHBOUR = '203.0.113.78'
const IPV6 = '2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff'
/** The same client, by its network. */
const SAME_IPV6 = '2001:0DB8:AAAA:BBBB::1'
const MAPPED = '::ffff:198.51.100.99'
/** Every spelling of the addresses, and of what would give them away. */
const SPELLINGS = [
  IPV4,
  NEIGHBOUR,
  IPV6,
  SAME_IPV6,
  MAPPED,
  '198.51.100.99',
  '::ffff:c633:6463',
  '2001:db8:aaaa:bbbb',
  '2001:db8:aaaa:bbbb::/64',
  'cb00714d',
  'c6336463',
]
const OVERRIDE = '192.0.2.200'
const DENIED = '192.0.2.66'

function spellingsIn(text: string | Buffer): string[] {
  const found = typeof text === 'string' ? text.toLowerCase() : text.toString('latin1').toLowerCase()
  return SPELLINGS.filter((spelling) => found.includes(spelling.toLowerCase()))
}

function openFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'ratelimit-spool-'))
  atEnd(t, () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Returns everything that is stored: the bytes of all files of SQLite, or all tables of PostgreSQL. */
async function storedIn({ database }: TestDatabase): Promise<Buffer> {
  return Buffer.concat(await Promise.all(allDatabases(database).map(contentsOf)))
}

async function contentsOf(database: Database): Promise<Buffer> {
  const { url, schema } = database
  if (database.dialect.provider === 'sqlite') {
    const folder = dirname(url.slice('file:'.length))
    return Buffer.concat(filesIn(folder))
  }
  const tables = await database.query<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = $1 AND table_type = 'BASE TABLE'",
    [schema],
  )
  assert.ok(tables.length > 10)
  const dumps = tables.map(({ name }) =>
    database.query<{ row: string }>(`SELECT its::text AS row FROM ${database.dialect.table(name)} AS its`),
  )
  return Buffer.from(JSON.stringify(await Promise.all(dumps)))
}

async function start(
  t: TestContext,
  database: TestDatabase,
  addresses: 'truncated' | 'pseudonym',
  plugin: RateLimitOptions,
) {
  const lines: string[] = []
  const started = await startApp(t, {
    database,
    plugin: {
      privacy: { addresses },
      hashSecret: SECRET,
      logEvents: true,
      useDynamicRules: true,
      ...plugin,
      middleware: {
        defaultRate: '5/m',
        rateLimits: { '/auth/': '2/m' },
        ceiling: '200/m',
        denyList: [DENIED],
        ...plugin.middleware,
      },
    },
    fastify: {
      logger: {
        level: 'trace',
        stream: { write: (line: string) => lines.push(line) },
        serializers: { req: () => ({}) },
      },
    },
    routes(app) {
      app.get('/*', async () => 'ok')
      app.get('/own', { onRequest: app.smartRateLimit.limit({ rate: '1/m', name: 'own' }) }, async () => 'ok')
    },
  })
  const { rateLimitRule } = started.app.smartRateLimit.client
  for (const algorithm of ['sliding_window', 'token_bucket', 'leaky_bucket', 'concurrency'] as const) {
    const rate = algorithm === 'concurrency' ? '5/60s' : '2/m'
    await rateLimitRule.create({ data: { name: algorithm, pathPattern: `^/${algorithm}`, algorithm, rate } })
  }
  await rateLimitRule.create({ data: { name: 'both', pathPattern: '^/both', rate: '2/m', key: 'ip+header:X-Tenant' } })
  await rateLimitRule.create({
    data: { name: 'header', pathPattern: '^/header', rate: '2/m', key: 'header:X-Tenant+user' },
  })
  await rateLimitRule.create({
    data: { name: 'banning', pathPattern: '^/banning', rate: '1/m', banAfter: 1, banFor: '2h' },
  })
  await rateLimitRule.create({
    data: { name: 'net', pathPattern: '^/net', rate: '0/m', condition: "inNetwork(client.ip, '203.0.113.0/24')" },
  })
  return { ...started, lines, overrides: started.app.smartRateLimit.client.rateLimitOverride }
}

type Started = Awaited<ReturnType<typeof start>>

/** Sends requests of every client under every rule; the statuses show that whole addresses are counted and matched. */
async function sendTraffic({ statuses, overrides, app }: Started): Promise<void> {
  for (const from of [IPV4, NEIGHBOUR, IPV6, MAPPED]) assert.deepEqual(await statuses(2, '/own', { from }), [200, 429])
  assert.deepEqual(await statuses(4, '/', { from: IPV4 }), [200, 200, 200, 429])
  assert.deepEqual(await statuses(4, '/', { from: NEIGHBOUR }), [200, 200, 200, 429], 'a neighbour has its own counter')
  assert.deepEqual(await statuses(2, '/', { from: IPV6 }), [200, 200])
  assert.deepEqual(await statuses(2, '/', { from: SAME_IPV6 }), [200, 429], 'a network of IPv6 has one counter')
  assert.deepEqual(await statuses(2, '/', { from: MAPPED }), [200, 200])
  assert.deepEqual(await statuses(2, '/', { from: '198.51.100.99' }), [200, 429], 'a mapped address is that of IPv4')
  for (const from of [IPV4, IPV6, MAPPED]) {
    for (const path of ['/sliding_window', '/token_bucket', '/leaky_bucket', '/both', '/header', '/auth/x']) {
      assert.deepEqual(await statuses(3, path, { from }), [200, 200, 429], `${path} of ${from}`)
    }
    assert.deepEqual(await statuses(1, '/concurrency', { from }), [200])
  }
  assert.deepEqual(await statuses(1, '/net', { from: IPV4 }), [429], 'conditions see the address')
  assert.deepEqual(await statuses(1, '/', { from: DENIED }), [403], 'lists have addresses')
  await overrides.create({ data: { client: `ip:${OVERRIDE}`, effect: 'allow' } })
  await overrides.create({ data: { client: 'ip:192.0.2.128/26', effect: '1/m' } })
  assert.deepEqual(await statuses(5, '/', { from: OVERRIDE }), [200, 200, 200, 200, 200], 'an override for the address')
  assert.deepEqual(await statuses(2, '/', { from: '192.0.2.129' }), [200, 429], 'and one for its network')
  for (const from of [IPV4, IPV6]) {
    assert.deepEqual((await statuses(2, '/banning', { from })).slice(0, 2), [200, 429])
    await eventually('the ban is in force', async () => (await statuses(1, '/elsewhere', { from }))[0] === 403)
  }
  assert.deepEqual(await statuses(1, '/elsewhere', { from: MAPPED }), [429], 'nobody else is banned')
  await app.smartRateLimit.events.flush()
}

/** Returns the contents of a folder's files, those of its folders too. */
function filesIn(folder: string): Buffer[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => readFileSync(join(parentPath, name)))
}

forAnyDatabase((provider) => {
  for (const addresses of ['truncated', 'pseudonym'] as const) {
    test(
      `no address is stored with ${addresses}: counters, bans, log, sums, alerts, spool, and the log of the host`,
      long(),
      async (t) => {
        const database = await openDatabase(t, provider)
        const webhook = await startWebhookReceiver(t)
        const folder = openFolder(t)
        const alerts = { alertThreshold: 1, alertWebhook: webhook.url, alertCooldown: 3_600 }
        const started = await start(t, database, addresses, { ...alerts, eventSpool: folder })
        const { app, overrides, lines, statuses } = started
        await sendTraffic(started)
        const { analytics, events } = app.smartRateLimit

        const { offenders } = await analytics.sendOffenderAlerts()
        assert.ok(offenders.length > 5)
        await statuses(60, '/net', { from: NEIGHBOUR })
        await events.flush()
        const { incidents } = await analytics.sendIncidentAlerts()
        assert.ok(incidents.length > 0)
        const [top] = await analytics.getTopClients()
        // Which one it is depends on how soon the bans are in force.
        const networks = /^ip:(203\.0\.113\.0\/24|2001:db8:aaaa::\/48)$/
        assert.match(top?.client ?? '', addresses === 'truncated' ? networks : /^ip:~[0-9a-f]{32}$/)
        const bans = await overrides.findMany({ where: { effect: 'deny' } })
        assert.equal(bans.length, 2)
        for (const { client } of bans) assert.match(client, /^ip:~[0-9a-f]{32}$/)

        const table = database.log.dialect.table('rate_limit_event')
        await database.log.execute(`ALTER TABLE ${table} RENAME TO away`, [])
        await statuses(2, '/spooled', { from: IPV6 })
        await statuses(2, '/spooled', { from: IPV4 })
        await eventually('events are in the spool', () => events.stats().spooled === 4)
        const spooled = Buffer.concat(filesIn(folder))
        assert.match(spooled.toString(), /spooled/)
        assert.deepEqual(spellingsIn(spooled), [])
        await database.log.execute(`ALTER TABLE ${database.log.dialect.table('away')} RENAME TO rate_limit_event`, [])
        await events.flush()
        await analytics.getTrafficSummary()

        const stored = await storedIn(database)
        assert.match(stored.toString('latin1'), /spooled/)
        assert.ok(stored.includes(OVERRIDE), 'an override of an operator is in clear, and is found')
        assert.deepEqual(spellingsIn(stored), [])
        const logged = lines.join('\n')
        assert.match(logged, /Rate limit override created/)
        assert.deepEqual([spellingsIn(logged), logged.includes(OVERRIDE)], [[], false])
        assert.deepEqual(spellingsIn(webhook.posts.map(({ body }) => body).join('\n')), [])
      },
    )
  }
})

describe('in Redis', { skip: redisMissing }, () => {
  test('no address is stored, in keys or values', long(), async (t) => {
    const redis = openRedis(t)
    const database = await openDatabase(t, 'sqlite')
    const { url, namespace, client } = redis
    await sendTraffic(
      await start(t, database, 'truncated', { redis: url, namespace, middleware: { backend: 'redis' } }),
    )
    const keys = await redis.keys()
    assert.ok(keys.length > 20)
    const values = keys.map(async (key) => {
      const type = await client.type(key)
      assert.ok(type === 'string' || type === 'hash', type)
      return JSON.stringify(type === 'hash' ? await client.hgetall(key) : await client.get(key))
    })
    assert.deepEqual(spellingsIn(keys.join('\n')), [])
    assert.deepEqual(spellingsIn((await Promise.all(values)).join('\n')), [])
    assert.deepEqual(spellingsIn(await storedIn(database)), [])
  })
})

test('addresses that are not stored in full need a secret, from options or the environment, and say so', async (t) => {
  const start = async (options: RateLimitOptions) => {
    const app = Fastify()
    atEnd(t, () => app.close())
    await app.register(rateLimitPlugin, { middleware: { backend: 'memory' }, ...options })
  }
  const privacy = { addresses: 'pseudonym' } as const
  await assert.rejects(
    start({ privacy }),
    /"privacy" is { addresses: 'pseudonym' } without "hashSecret".*RATELIMIT_HASH_SECRET/,
  )
  await assert.rejects(start({ privacy, hashSecret: 'hunter2' }), /hashSecret.*16/)
  // @ts-expect-error what JavaScript may pass
  await assert.rejects(start({ privacy: { addresses: 'hashed' } }), /"privacy" is .*give .*full, truncated, pseudonym/)
  await start({ privacy: { addresses: 'full' } })
  await start({ privacy, hashSecret: SECRET })
  process.env.RATELIMIT_PRIVACY_ADDRESSES = 'truncated'
  atEnd(t, () => {
    delete process.env.RATELIMIT_PRIVACY_ADDRESSES
  })
  await assert.rejects(start({}), /"RATELIMIT_PRIVACY_ADDRESSES" is { addresses: 'truncated' } without "hashSecret"/)
})
