/** Named lists of addresses in rules, in the allow list and in the deny list, over HTTP. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { dashboardPlugin } from '../../src/dashboard.js'
import { type RateLimitOptions, RuleValidationError } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { startFeed } from '../support/feed-server.js'
import { long } from '../support/long.js'

const PARTNER = '203.0.113.7'
const TOR = '192.0.2.1'
const STRANGER = '198.51.100.9'
const LISTS = { partners: ['203.0.113.0/24', '2001:db8::/32'], tor: [TOR] }
const RULE = { name: 'tor', pathPattern: '^/', rate: '2/m', condition: "inList(client.ip, 'tor')", priority: 1 }

const from = (address: string) => ({ headers: { 'x-forwarded-for': address } })

async function writeList(t: TestContext, text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-test-lists-'))
  atEnd(t, () => rm(folder, { recursive: true }))
  const path = join(folder, 'list.txt')
  await writeFile(path, text)
  return path
}

forAnyDatabase((provider) => {
  test('a rule applies to the clients of a list, and allow and deny lists take lists by name', async (t) => {
    const database = await openDatabase(t, provider)
    await database.client.rateLimitRule.create({ data: RULE })
    const { request, statuses } = await startApp(t, {
      database,
      plugin: {
        useDynamicRules: true,
        lists: { ...LISTS, scrapers: [STRANGER] },
        middleware: { defaultRate: '3/m', allowList: ['list:partners', '10.0.0.1'], denyList: ['list:scrapers'] },
      },
    })
    assert.deepEqual(await statuses(3, '/', from(TOR)), [200, 200, 429])
    assert.deepEqual(await statuses(4, '/', from('192.0.2.2')), [200, 200, 200, 429])
    for (const exempt of [PARTNER, '2001:db8::5', '10.0.0.1']) {
      assert.deepEqual(await statuses(5, '/', from(exempt)), [200, 200, 200, 200, 200])
    }
    assert.equal((await request('/', from(STRANGER))).status, 403)
  })

  test('a list has the address, whatever of it is stored', async (t) => {
    const { statuses } = await startApp(t, {
      database: provider,
      plugin: {
        useDynamicRules: true,
        lists: LISTS,
        hashSecret: 'a secret of many letters',
        privacy: { addresses: 'pseudonym' },
        middleware: { allowList: ['list:partners'], defaultRate: '1/m' },
      },
      routes: async (app) => {
        await app.smartRateLimit.client.rateLimitRule.create({ data: RULE })
        app.get('/', async () => 'ok')
      },
    })
    assert.deepEqual(await statuses(3, '/', from(TOR)), [200, 200, 429])
    assert.deepEqual(await statuses(3, '/', from(PARTNER)), [200, 200, 200])
  })

  test(
    'a list that is fetched applies, to clients that were seen before too, and health tells of it',
    long(),
    async (t) => {
      const feed = await startFeed(t)
      feed.answers((response) => response.writeHead(500).end())
      const clock = fakeClock()
      const { request, app, log } = await startApp(t, {
        database: provider,
        clock,
        plugin: { lists: { tor: feed.url }, middleware: { denyList: ['list:tor'] } },
      })
      assert.equal((await request('/', from(TOR))).status, 200)
      const { checks, ok, ready } = await app.smartRateLimit.health()
      assert.deepEqual([ok, ready, checks.lists.status], [false, true, 'failing'])
      assert.match(checks.lists.detail, /tor was never read, and is empty \(status 500\)/)
      assert.equal(log.filter(({ msg }) => msg.includes('it is empty until it can be read')).length, 1)
      feed.answers(`${TOR}\n`)
      clock.advance(60_000)
      await eventually('the list is fetched', async () => (await request('/', from(TOR))).status === 403)
      const after = await app.smartRateLimit.health()
      assert.deepEqual([after.ok, after.checks.lists.detail], [true, 'tor has 1 entry'])
    },
  )

  test('a file that changes applies to clients that were seen before', long(), async (t) => {
    const path = await writeList(t, TOR)
    const { request } = await startApp(t, {
      database: await openDatabase(t, provider),
      plugin: { lists: { tor: path }, middleware: { denyList: ['list:tor'] } },
    })
    assert.equal((await request('/', from(TOR))).status, 403)
    assert.equal((await request('/', from(STRANGER))).status, 200)
    await writeFile(path, `${STRANGER}\n`)
    await eventually('the file is read again', async () => (await request('/', from(STRANGER))).status === 403)
    assert.equal((await request('/', from(TOR))).status, 200)
  })

  test('an app refuses a rule that names a list that it does not have', async (t) => {
    const { app } = await startApp(t, { database: provider, plugin: { useDynamicRules: true, lists: LISTS } })
    const { client, rules: ofApp } = app.smartRateLimit
    const wrong = { ...RULE, condition: "inList(client.ip, 'tr')" }
    const refused = (error: unknown) => {
      assert.ok(error instanceof RuleValidationError)
      assert.deepEqual(error.errors, {
        condition: 'the list "tr" does not exist: the setting lists has partners, tor',
      })
      return true
    }
    const rules = client.rateLimitRule
    await assert.rejects(rules.create({ data: wrong }), refused)
    await assert.rejects(ofApp.preview(wrong), refused)
    await rules.create({ data: RULE })
    await assert.rejects(rules.update({ where: { name: 'tor' }, data: { condition: wrong.condition } }), refused)
    await assert.rejects(rules.updateMany({ data: { condition: wrong.condition } }), refused)
    await assert.rejects(rules.upsert({ where: { name: 'x' }, create: wrong, update: {} }), refused)
    await assert.rejects(rules.createMany({ data: [{ ...wrong, name: 'y' }] }), RuleValidationError)
    assert.equal(await rules.count(), 1)
  })

  test('a rule whose list was removed is left out, logged once, and can be switched off', async (t) => {
    const database = await openDatabase(t, provider)
    await database.client.rateLimitRule.create({ data: RULE })
    const { statuses, log, app } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true, lists: { partners: [] }, middleware: { defaultRate: '3/m' } },
    })
    assert.deepEqual(await statuses(4, '/', from(TOR)), [200, 200, 200, 429])
    await app.smartRateLimit.client.rateLimitRule.update({ where: { name: 'tor' }, data: { description: 'old' } })
    await app.smartRateLimit.rules.reload()
    const lines = log.filter(({ msg }) => msg.includes('Rate limit rule skipped'))
    assert.equal(lines.length, 1)
    assert.match(JSON.stringify(lines[0]), /the list \\"tor\\" does not exist: the setting lists has partners/)
    await app.smartRateLimit.client.rateLimitRule.update({ where: { name: 'tor' }, data: { isActive: false } })
  })

  test('the pages name the lists that there are, and the rules that are left out', async (t) => {
    const database = await openDatabase(t, provider)
    await database.client.rateLimitRule.create({ data: RULE })
    const { request } = await startApp(t, {
      database,
      plugin: { useDynamicRules: true, lists: { partners: [] } },
      routes: async (app) => {
        await app.register(dashboardPlugin, { prefix: '/staff', isStaff: () => ({ actor: 'alice', role: 'admin' }) })
      },
    })
    const list = await request('/staff/dashboard/rules.html')
    assert.equal(list.status, 200, list.text.slice(0, 200))
    assert.match(list.text, />Left out</)
    assert.match(list.text, /the list (?:&quot;|")tor(?:&quot;|") does not exist: the setting lists has partners/)
    const form = await request('/staff/dashboard/rule.html')
    assert.match(form.text, /Lists: inList\(client\.ip, .{1,6}partners/)
  })

  test('a preview leaves out no request whose address the log has', async (t) => {
    const { statuses, app } = await startApp(t, {
      database: provider,
      plugin: { useDynamicRules: true, logEvents: true, lists: LISTS },
    })
    await statuses(3, '/', from(TOR))
    await statuses(3, '/', from(STRANGER))
    const { matched, uncovered, sentence } = await app.smartRateLimit.rules.preview(RULE, { hours: 1 })
    assert.deepEqual([matched, uncovered.count], [3, 0])
    assert.match(sentence, /^3 of 6 requests matched; /)
  })
})

const WRONG: readonly (readonly [RateLimitOptions, RegExp])[] = [
  [{ lists: { 'no name': [] } }, /Setting "lists" has the name "no name": give a letter/],
  [{ lists: { a: ['10.0.0.0/40'] } }, /Setting "lists.a" has a wrong entry: .*10\.0\.0\.0\/40/],
  [{ lists: { a: 'http://example.com/?token=secret' } }, /Setting "lists.a" is no URL .*: give one with https:\/\/$/],
  [{ lists: { a: './missing.txt' } }, /Setting "lists.a" is ".\/missing.txt", a file that cannot be read: ENOENT/],
  [{ listsRefresh: 0 }, /Setting "listsRefresh" is 0: give seconds, 1 to/],
  [
    { middleware: { denyList: ['list:tor'] } },
    /"middleware.denyList" has a wrong entry: the list "tor" does not exist/,
  ],
  [{ lists: LISTS, middleware: { allowList: ['list:x'] } }, /the setting lists has partners, tor/],
]

for (const [plugin, problem] of WRONG) {
  test(`wrong lists fail at start: ${JSON.stringify(plugin)}`, async (t) => {
    await assert.rejects(startApp(t, { database: null, plugin }), problem)
  })
}

test('a limit of a route takes lists by name, and refuses those that do not exist', async (t) => {
  const { statuses, app } = await startApp(t, {
    database: null,
    plugin: { lists: LISTS },
    routes: (scope) => {
      scope.get('/', { config: { smartRateLimit: { rate: '1/m', allowList: ['list:partners'] } } }, async () => 'ok')
    },
  })
  assert.deepEqual(await statuses(2, '/', from(PARTNER)), [200, 200])
  assert.deepEqual(await statuses(2, '/', from(STRANGER)), [200, 429])
  assert.throws(
    () => app.smartRateLimit.limit({ rate: '1/m', allowList: ['list:x'] }),
    /"limit.allowList" has a wrong entry: the list "x" does not exist: the setting lists has partners, tor/,
  )
})
