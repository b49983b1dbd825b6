/** Pages, commands and explanations tell nothing of a counter that may be another client's, and looking creates none. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { databaseFor } from '../../src/database/database.js'
import type { RateLimitOptions } from '../../src/index.js'
import { startWithApi } from '../support/api-app.js'
import { unescapeHtml, withoutTimes } from '../support/client-forms.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { ratelimit } from '../support/scripts.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const IP = '203.0.113.7'
const TABLES = ['counter', 'sliding_window', 'token_bucket', 'leaky_bucket', 'concurrency']

/** The user of a request is the JSON in its header. */
const USER: RateLimitOptions['user'] = ({ headers: { authorization } }) =>
  authorization === undefined ? null : JSON.parse(authorization)

function as(user: unknown, from = IP) {
  return { headers: { authorization: JSON.stringify(user) }, from }
}

/** An app whose route `/llm` charges 501 tokens, of which an organisation has 500 in an hour. */
async function start(
  t: TestContext,
  provider: Provider,
  middleware: RateLimitOptions['middleware'] = {},
  others: RateLimitOptions = {},
) {
  const plugin: RateLimitOptions = {
    useDynamicRules: true,
    user: USER,
    middleware: { defaultRate: '100/h', ...middleware },
    ...others,
  }
  const started = await startWithStaff(t, provider, { isStaff: () => true }, plugin, (app: FastifyInstance) => {
    app.get('/llm', (request) => app.smartRateLimit.charge(request, { tokens: 501 }))
    app.get('/images', (request) => app.smartRateLimit.charge(request, { images: 1 }))
  })
  const { client } = started.app.smartRateLimit
  await client.rateLimitRule.create({
    data: { name: 'org', group: 'tokens', pathPattern: '^/llm', rate: '500/h', unit: 'tokens', key: 'user.org' },
  })
  const { database } = started
  return {
    ...started,
    async page(address: string) {
      const { text } = await started.request(DASHBOARD + address)
      return withoutTimes(unescapeHtml(text.slice(text.indexOf('<main'))))
    },
    async counters() {
      const rows = await Promise.all(
        TABLES.map((name) =>
          database.query<{ key: string }>(`SELECT key FROM ${database.dialect.table(`rate_limit_${name}`)}`),
        ),
      )
      return rows
        .flat()
        .map(({ key }) => key)
        .toSorted()
    },
    /** Makes the organisation acme use up its tokens, and then be refused. */
    async refuse(user: object = { id: 1, org: 'acme' }) {
      assert.equal((await started.request('/llm', as(user))).status, 200)
      assert.equal((await started.request('/llm', as(user))).status, 429)
      await started.app.smartRateLimit.events.flush()
    },
  }
}

/** Returns the links of a page to the explanations of requests. */
function whyLinks(html: string): string[] {
  return [...html.matchAll(/href="(explain\.html\?[^"]+)"/g)].map(([, href = '']) => href)
}

forEachDatabase((provider) => {
  for (const [key, client] of [
    ['ip', `ip:${IP}`],
    ['user', 'user:1'],
  ] as const) {
    test(`the page of a client by ${key} says what its organisation had used, and not what nobody has`, async (t) => {
      const { page, refuse, counters } = await start(t, provider, { key })
      await refuse()
      const before = await counters()
      const ofClient = await page(`client.html?client=${client}&days=1`)
      assert.match(ofClient, /org<\/bdi>[\s\S]*?class="standing">502 of 500 <span class="faint">at its last request/)
      const [why = ''] = whyLinks(ofClient)
      assert.match(why, /event=/)
      const explained = await page(why)
      assert.match(explained, /was refused: 502 of 500 by org\./)
      // An address of the base limit does not tell of the organisation.
      const missing = key === 'ip' ? 'user.org' : 'user.org or ip'
      assert.match(
        explained,
        new RegExp(`The rule matches the request. What is used of it is not known without ${missing}\\.`),
      )
      for (const text of [ofClient, explained]) {
        assert.doesNotMatch(text, /500 of 500|the request is within the limit/)
      }
      assert.match(
        explained,
        /Of default the client has used 1, 99 left\. Whether org would refuse the request is not known\./,
      )
      assert.deepEqual(await counters(), before)
    })
  }

  test('the search for an organisation leads to its page, which says where its requests are in the log', async (t) => {
    const { request, page, refuse } = await start(t, provider)
    await refuse()
    const { status, headers } = await request(`${DASHBOARD}search.html?q=user.org%3Aacme&days=1`)
    assert.deepEqual([status, headers.location], [303, 'client.html?client=user.org%3Aacme&days=1'])
    const ofOrganisation = await page('client.html?client=user.org:acme&days=1')
    assert.match(ofOrganisation, /has the requests of this client under their addresses or users/)
    // A word is no address: who was counted under it is a choice.
    assert.match(await page('search.html?q=acme&days=1'), new RegExp(`ip:${IP}`))
  })

  test('the page of the organisation says what it has used, and a client without a user keeps its numbers', async (t) => {
    const { page, refuse, request, app } = await start(t, provider, { key: 'user' })
    await refuse()
    assert.match(await page('client.html?client=user.org:acme&days=1'), /0 of 500 tokens left, 501 used/)
    await request('/', { from: '203.0.113.8' })
    await app.smartRateLimit.events.flush()
    const anonymous = await page('client.html?client=ip:203.0.113.8&days=1')
    assert.match(anonymous, /default<\/bdi>[\s\S]*?1 used, 99 left <span class="faint">now/)
    const [why = ''] = whyLinks(anonymous)
    assert.match(await page(why), /Decided by default\. The client has used 1, 99 left/)
  })

  test('a request of a network that stands for its clients has no number of the first address', async (t) => {
    const privacy = { privacy: { addresses: 'truncated' }, hashSecret: 'a secret for tests, of 32 characters' } as const
    const { page, request, app } = await start(t, provider, {}, privacy)
    await request('/', { from: IP })
    await app.smartRateLimit.events.flush()
    const [why = ''] = whyLinks(await page('client.html?client=ip:203.0.113.0/24&days=1'))
    const explained = await page(why)
    assert.match(explained, /was allowed: 1 of 100 by default\./)
    assert.match(explained, /What is used of it is not known without ip\./)
    assert.doesNotMatch(explained, /used 0/)
  })

  test('a charge that no limit counts shows no number of the rule that decided', async (t) => {
    const { page, request, app } = await start(t, provider)
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'by-org', group: 'images', pathPattern: '^/images', rate: '2/h', key: 'user.org' },
    })
    assert.equal((await request('/images', as({ id: 1, org: 'acme' }))).status, 200)
    const { analytics, events } = app.smartRateLimit
    await events.flush()
    await eventually('the charge is kept', async () => (await analytics.getUsage({ unit: 'images' })).rows.length === 1)
    const text = await page(`client.html?client=ip:${IP}&days=1`)
    assert.match(text, /by-org<\/bdi>[\s\S]*?class="standing">1 of 2 <span class="faint">at its last request/)
  })

  test('an explanation says what is missing: an address, or the fields of a user of whom it has the id', async (t) => {
    const { app, refuse, counters, database } = await start(t, provider, { ceiling: '1000/h' })
    await refuse()
    const before = await counters()
    const { explain } = app.smartRateLimit
    const told = async (options: Omit<Parameters<typeof explain>[0], 'path'>) => {
      const { limits } = await explain({ path: '/llm', ...options })
      return limits.flatMap(({ policy, applies, count, why }) =>
        applies ? [[policy, count, / not known without (.*)\.$/.exec(why)?.[1]]] : [],
      )
    }
    const acme = { id: 1, org: 'acme' }
    assert.deepEqual(await told({ ip: IP, user: acme }), [
      ['default', 1, undefined],
      ['org', 501, undefined],
      ['ceiling', 2, undefined],
    ])
    assert.deepEqual(await told({ user: acme }), [
      ['default', null, 'ip'],
      ['org', 501, undefined],
      ['ceiling', null, 'ip'],
    ])
    assert.deepEqual(await told({ ip: IP, user: 1 }), [
      ['default', 1, undefined],
      ['org', null, 'user.org'],
      ['ceiling', 2, undefined],
    ])
    // Its user has no organisation, or there is no user: then the limit counts the address.
    for (const user of [{ id: 1 }, null]) {
      assert.deepEqual((await told({ ip: IP, user }))[1], ['org', 0, undefined])
      assert.deepEqual((await told({ user }))[1], ['org', null, 'user.org or ip'])
    }
    const env = { RATELIMIT_DATABASE_URL: database.url }
    const { stdout } = await ratelimit(
      ['explain', '--schema', database.schema ?? '', '--path', '/llm', '--user', '1'],
      { env },
    )
    assert.match(stdout, /What is used of it is not known without user\.org or ip\./)
    assert.match(stdout, /No address was given: limits for addresses may decide otherwise, and what is used of them/)
    assert.deepEqual(await counters(), before)
  })

  test('no page, search or command creates a counter of what it shows', async (t) => {
    const { page, app, counters, database } = await start(t, provider)
    await app.smartRateLimit.rules.reload()
    const pages = [
      `client.html?client=ip:${IP}`,
      'client.html?client=user:7',
      'client.html?client=user.org:acme',
      `explain.html?path=/llm&ip=${IP}`,
      'explain.html?path=/llm&user=7&fields=org:acme',
      `search.html?q=${IP}`,
      `counters.html?q=${IP}`,
      'rule.html?named=org',
      'rules.html',
      'overrides.html',
      'index.html',
      'clients.html',
      'events.html',
      'changes.html',
      'usage.html',
      'offender.html?key=rule:org:acme',
      `client.html?client=203.0.113.0/24`,
    ]
    for (const address of pages) await page(address)
    const { explain, reset } = app.smartRateLimit
    await explain({ path: '/llm', user: { id: 1, org: 'acme' }, ip: IP })
    await reset('user.org:acme')
    for (const args of [['--ip', IP], ['--user', '7'], []]) {
      const env = { RATELIMIT_DATABASE_URL: database.url }
      await ratelimit(['explain', '--schema', database.schema ?? '', '--path', '/llm', ...args], { env })
    }
    for (const args of [['counters', 'reset', 'user.org:acme'], ['top'], ['rules', 'export']]) {
      const env = { RATELIMIT_DATABASE_URL: database.url }
      const { status, stderr } = await ratelimit([...args, '--schema', database.schema ?? ''], { env })
      assert.equal(status, 0, stderr)
    }
    assert.deepEqual(await counters(), [])
  })
})

forEachDatabase((provider) => {
  test('neither the API nor peek() creates a counter', async (t) => {
    const plugin: RateLimitOptions = {
      useDynamicRules: true,
      user: USER,
      middleware: { defaultRate: '9/h', skipPaths: ['/peek'] },
    }
    const { app, call, request, database } = await startWithApi(t, provider, {
      plugin,
      routes(scope) {
        const limit = scope.smartRateLimit.limit({ name: 'own', rate: '5/m' })
        scope.get('/peek', async (asked) => [await limit.peek(asked), await scope.smartRateLimit.peek(asked)])
      },
    })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'org', pathPattern: '^/', rate: '500/h', key: 'user.org' },
    })
    await app.smartRateLimit.rules.reload()
    assert.equal((await request('/peek', as({ id: 1, org: 'acme' }))).status, 200)
    for (const client of ['user.org:acme', 'user:1', `ip:${IP}`]) {
      const { status } = await call('GET', `/reports/client?client=${client}`, { as: 'viewer' })
      assert.equal(status, 200, client)
    }
    for (const json of [{ path: '/llm', ip: IP }, { path: '/llm' }]) {
      assert.equal((await call('POST', '/explain', { as: 'viewer', json })).status, 200)
    }
    const ofDatabase = databaseFor(database.client)
    for (const name of TABLES) {
      const table = ofDatabase.dialect.table(`rate_limit_${name}`)
      assert.deepEqual(await ofDatabase.query(`SELECT * FROM ${table}`), [], name)
    }
  })
})

test('ratelimit explain tells no number of counters that are in the memory of servers', async () => {
  const env = {
    RATELIMIT_DATABASE_URL: 'file:./never-opened.db',
    RATELIMIT_MIDDLEWARE: '{"BACKEND":"memory","DEFAULT_RATE":"5/m"}',
  }
  const { stdout } = await ratelimit(['explain', '--path', '/', '--ip', IP, '--json'], { env })
  const { limits } = JSON.parse(stdout)
  assert.deepEqual(
    limits.flatMap((limit: { applies: boolean; count: unknown; remaining: unknown }) =>
      limit.applies ? [[limit.count, limit.remaining]] : [],
    ),
    [[null, null]],
  )
})
