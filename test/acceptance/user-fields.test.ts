/** Requests are counted by a field of their user: all users of an organisation share a counter. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../src/index.js'
import { openDatabase, startApp, WARN } from '../support/build-app.js'
import { unescapeHtml } from '../support/client-forms.js'
import { forAnyDatabase, type TestDatabase } from '../support/databases.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const ALICE = '203.0.113.7'
const BOB = '203.0.113.8'

/** The user of a request is the JSON in its header. */
const USER: RateLimitOptions['user'] = ({ headers: { authorization } }) =>
  authorization === undefined ? null : JSON.parse(authorization)

function as(user: unknown, from = ALICE) {
  return { headers: { authorization: JSON.stringify(user) }, from }
}

async function start(t: TestContext, database: TestDatabase | null, plugin: RateLimitOptions = {}) {
  return startApp(t, {
    database,
    plugin: { logEvents: database !== null, useDynamicRules: database !== null, user: USER, ...plugin },
  })
}

forAnyDatabase((provider) => {
  test('a rule by user.org counts all users of an organisation together, and those without one by address', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database)
    const { client, reset, events } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { name: 'org', pathPattern: '^/', rate: '2/h', key: 'user.org' } })
    assert.deepEqual(await statuses(1, '/', as({ id: 1, org: 'acme' })), [200])
    assert.deepEqual(await statuses(2, '/', as({ id: 2, org: 'acme' }, BOB)), [200, 429])
    assert.deepEqual(await statuses(1, '/', as({ org: 'other' })), [200])
    // An integer is its text.
    assert.deepEqual(await statuses(2, '/', as({ id: 3, org: 7 })), [200, 200])
    assert.deepEqual(await statuses(1, '/', as({ id: 3, org: '7' })), [429])
    // The value of a field never spells another client.
    assert.deepEqual(await statuses(2, '/', as({ id: 4, org: ALICE })), [200, 200])
    assert.deepEqual(await statuses(2, '/', as({ id: 4, org: 'user:1' })), [200, 200])
    const missing = [{ id: 5 }, { id: 5, org: null }, { id: 5, org: '' }, { id: 5, org: 1.5 }, { id: 5, org: ['acme'] }]
    for (const user of missing) {
      assert.deepEqual(await statuses(3, '/', as(user)), [200, 200, 429], JSON.stringify(user))
      await reset(`rule:org:${ALICE}`)
    }
    assert.deepEqual(await statuses(3, '/', { from: ALICE }), [200, 200, 429])
    assert.deepEqual(await statuses(3, '/', as('acme', BOB)), [200, 200, 429])

    await events.flush()
    const rows = await client.rateLimitEvent.findMany({ orderBy: { id: 'asc' }, take: 4 })
    assert.deepEqual(
      rows.map(({ key, client, userId, clientIp }) => [key, client, userId, clientIp]),
      [
        ['rule:org:acme', 'user.org:acme', 1, null],
        ['rule:org:acme', 'user.org:acme', 2, null],
        ['rule:org:acme', 'user.org:acme', 2, null],
        ['rule:org:other', 'user.org:other', null, null],
      ],
    )
    await reset('rule:org:acme')
    assert.deepEqual(await statuses(3, '/', as({ id: 1, org: 'acme' })), [200, 200, 429])
  })

  test('a field stands among other kinds, where a missing one appends the address', async (t) => {
    const database = await openDatabase(t, provider)
    const { app, statuses } = await start(t, database, { middleware: { defaultRate: '1/h', key: 'user.org+user' } })
    assert.deepEqual(await statuses(2, '/', as({ id: 1, org: 'acme' })), [200, 429])
    assert.deepEqual(await statuses(2, '/', as({ id: 2, org: 'acme' })), [200, 429])
    assert.deepEqual(await statuses(2, '/', as({ id: 2 })), [200, 429])
    assert.deepEqual(await statuses(2, '/', as({ id: 2 }, BOB)), [200, 429])
    await app.smartRateLimit.events.flush()
    const rows = await database.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      [0, 4].map((index) => [rows[index]?.key, rows[index]?.client]),
      [
        ['acme|user:1', 'user.org:acme|user:1'],
        [`-|user:2|${ALICE}`, `user.org:-|user:2|ip:${ALICE}`],
      ],
    )
  })

  test('staff find a client by its field, see its requests, and ask what it meets', async (t) => {
    const { app, request } = await startWithStaff(
      t,
      provider,
      { isStaff: () => true },
      { useDynamicRules: true, logEvents: true, user: USER, middleware: { defaultRate: '5/m', key: 'user.org' } },
    )
    const { rateLimitRule } = app.smartRateLimit.client
    await rateLimitRule.create({
      data: { name: 'gold', pathPattern: '^/gold', rate: '3/m', key: 'user.org', condition: "user.plan == 'gold'" },
    })
    const user = { id: 1, org: 'acme', plan: 'gold' }
    for (const path of ['/gold', '/gold', '/']) await request(path, as(user))
    await app.smartRateLimit.events.flush()

    const found = await request(`${DASHBOARD}client.html?client=user.org:acme`)
    assert.equal(found.status, 200)
    assert.match(found.text, /user\.org:acme/)
    const [, href = ''] = /href="(explain\.html\?[^"]+)"/.exec(found.text) ?? []
    const explained = await request(DASHBOARD + unescapeHtml(href))
    assert.equal(explained.status, 200)
    assert.match(explained.text, /<textarea name="fields"[^>]*>org: acme<\/textarea>/)

    const asked = new URLSearchParams({ path: '/gold', fields: 'org: acme\nplan: gold' })
    const answer = await request(`${DASHBOARD}explain.html?${asked}`)
    assert.match(answer.text, /Decided by gold\. The client has used 2/)
    const wrong = await request(`${DASHBOARD}explain.html?${new URLSearchParams({ path: '/', fields: 'org acme' })}`)
    assert.equal(wrong.status, 400)
    assert.match(wrong.text, /Line 1 of the user’s fields is not valid: give lines such as org: acme/)
    const { decided_by, limits } = await app.smartRateLimit.explain({
      path: '/gold',
      user: { org: 'acme', plan: 'gold' },
    })
    assert.deepEqual([decided_by, limits.find(({ policy }) => policy === 'gold')?.count], ['gold', 2])
  })
})

test('a route limit and a field whose getter fails count by address, and limits without a user source are warned about', async (t) => {
  class Broken {
    get org(): string {
      throw new Error('of the host')
    }
    get team(): string {
      return 'red'
    }
  }
  const { statuses } = await startApp(t, {
    database: null,
    plugin: { middleware: { defaultRate: '1/h', key: 'user.org' }, user: () => Object.assign(new Broken(), { id: 1 }) },
    routes: (host) => {
      host.get('/', async () => 'ok')
      host.get('/team', { config: { smartRateLimit: { rate: '1/h', key: 'user.team' } } }, async () => 'ok')
    },
  })
  assert.deepEqual(await statuses(2, '/', { from: ALICE }), [200, 429])
  assert.deepEqual(await statuses(1, '/', { from: BOB }), [200])
  assert.deepEqual(await statuses(1, '/team', { from: '203.0.113.9' }), [200])
  assert.deepEqual(await statuses(1, '/team', { from: '203.0.113.10' }), [429])
  const without = await startApp(t, { database: null, plugin: { middleware: { key: 'user.org' } } })
  assert.deepEqual(
    without.log.map(({ level, msg }) => [level, msg.split(':')[0]]),
    [[WARN, 'Rate limits by user count by IP address']],
  )
})
