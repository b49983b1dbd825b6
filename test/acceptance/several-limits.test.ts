/** The recipes of the guide "Several limits for one request" do what it says of them, imported as they stand there. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { DAY_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'

const PAGE = readFileSync(join(PACKAGE_ROOT, 'docs/guides/several-limits.md'), 'utf8')

/** Returns the document of a chapter of the guide. */
function recipeOf(title: string): unknown {
  const [, chapter = ''] = PAGE.split(`\n## ${title}\n`)
  const [, document = ''] = /```json\n(.+?)```/s.exec(chapter) ?? []
  return JSON.parse(document)
}

/** A user of an organisation and a team, as `acme/red/alice`. */
function toUser(name: string) {
  const [org = '', team = '', id = ''] = name.split('/')
  return { org, team, id }
}

async function start(t: TestContext, provider: Provider, title: string) {
  const started = await startApp(t, {
    database: await openDatabase(t, provider),
    plugin: {
      useDynamicRules: true,
      logEvents: true,
      headers: 'both',
      user: ({ headers }) => toUser(String(headers['x-user'])),
      middleware: { backend: 'memory', defaultRate: '1000/m' },
    },
  })
  const { rules } = await started.app.smartRateLimit.rules.import(recipeOf(title), { keep: true })
  assert.ok(rules.created.length > 0)
  const by = (user: string) => ({ headers: { 'x-user': user } })
  return {
    ...started,
    by,
    /** Asks so many times, and returns how many requests were let through. */
    async admitted(times: number, path: string, user: string) {
      const statuses = await started.statuses(times, path, by(user))
      return statuses.filter((status) => status === 200).length
    },
    /** Returns what is left of each limit, and charges nothing. */
    async left(path: string, user: string) {
      const { limits } = await started.app.smartRateLimit.explain({ path, ip: '127.0.0.1', user: toUser(user) })
      return Object.fromEntries(
        limits.flatMap(({ policy, applies, remaining }) => (applies ? [[policy, remaining]] : [])),
      )
    },
  }
}

forAnyDatabase((provider) => {
  test('an organisation, its teams and their users each have a limit, and a refused request takes from none of the others', async (t) => {
    const { admitted, left } = await start(t, provider, 'Organisation, team, user')
    const path = '/api/items'
    assert.equal(await admitted(30, path, 'acme/red/alice'), 20)
    assert.deepEqual(await left(path, 'acme/red/alice'), { user: 0, organisation: 80, team: 20 })
    assert.equal(await admitted(20, path, 'acme/red/bob'), 20)
    assert.equal(await admitted(5, path, 'acme/red/carol'), 0)
    assert.deepEqual(await left(path, 'acme/red/carol'), { user: 20, organisation: 60, team: 0 })
    // A team of the same name belongs to another organisation.
    assert.equal(await admitted(20, path, 'other/red/alice2'), 20)
    for (const user of ['acme/blue/dave', 'acme/blue/erin', 'acme/green/frank']) {
      assert.equal(await admitted(20, path, user), 20, user)
    }
    assert.equal(await admitted(5, path, 'acme/green/grace'), 0)
    assert.deepEqual(await left(path, 'acme/green/grace'), { user: 20, organisation: 0, team: 20 })
  })

  test('each user has a limit, and all together have one', async (t) => {
    const { admitted } = await start(t, provider, 'Per user, and for everybody')
    const path = '/reports/today'
    assert.equal(await admitted(25, path, 'a/b/alice'), 20)
    assert.equal(await admitted(25, path, 'a/b/bob'), 20)
    assert.equal(await admitted(25, path, 'a/b/carol'), 10)
    assert.equal(await admitted(1, '/other', 'a/b/carol'), 1)
  })

  test('searches have a burst, and count towards the budget of the day', async (t) => {
    const { admitted, left, clock } = await start(t, provider, 'A burst of searches, within a daily budget')
    const alice = 'a/b/alice'
    assert.equal(await admitted(8, '/search', alice), 5)
    assert.deepEqual(await left('/search', alice), { default: 995, budget: 195, search: 0 })
    assert.equal(await admitted(190, '/other', alice), 190)
    clock.advance(10 * SECOND_MS)
    assert.equal(await admitted(8, '/search', alice), 5)
    clock.advance(10 * SECOND_MS)
    assert.equal(await admitted(1, '/search', alice), 0)
    assert.equal(await admitted(1, '/other', alice), 0)
    assert.equal(await admitted(1, '/other', 'a/b/bob'), 1)
    clock.advance(DAY_MS)
    assert.equal(await admitted(1, '/search', alice), 1)
  })

  test('a limit on trial refuses nothing, and tells whom it would refuse', async (t) => {
    const { app, admitted, request, by } = await start(t, provider, 'A limit on trial')
    const path = '/api/items'
    assert.equal(await admitted(12, path, 'a/b/alice'), 12)
    const { status, headers } = await request(path, by('a/b/alice'))
    assert.deepEqual(
      [status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining'], headers['retry-after']],
      [200, '10', '0', undefined],
    )
    await app.smartRateLimit.events.flush()
    const events = await app.smartRateLimit.client.rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      events.map(({ policy, outcome, allowed }) => [policy, outcome, allowed]),
      [...Array(10).fill(['tighter', 'allowed', true]), ...Array(3).fill(['tighter', 'over_limit', true])],
    )
    const { would_be } = await app.smartRateLimit.analytics.getClient({ client: 'ip:127.0.0.1' })
    assert.equal(would_be, 3)
  })
})
