import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'

const RULE = { name: 'api', pathPattern: '^/api/', rate: '2/m', key: 'user+header:X-A' }
const ALICE = '203.0.113.7'

async function start(t: TestContext, provider: Provider) {
  const clock = fakeClock()
  const database = await openDatabase(t, provider, clock)
  return startApp(t, {
    database,
    clock,
    plugin: {
      logEvents: true,
      useDynamicRules: true,
      user: ({ headers: { authorization } }) => (authorization === undefined ? null : { id: Number(authorization) }),
    },
  })
}

const asking = (authorization: string | undefined, a: string | undefined) => ({
  headers: { ...(authorization === undefined ? {} : { authorization }), ...(a === undefined ? {} : { 'x-a': a }) },
  from: ALICE,
})

forEachDatabase((provider) => {
  test('a preview of the rule by several kinds that was in force finds the refusals that happened', async (t) => {
    const { app, statuses } = await start(t, provider)
    const { rules, client } = app.smartRateLimit
    await client.rateLimitRule.create({ data: RULE })
    await statuses(3, '/api/x', asking('7', 'a|b'))
    await statuses(3, '/api/x', asking('7', '-'))
    await statuses(3, '/api/x', asking('7', undefined))
    await statuses(3, '/api/x', asking(undefined, 'a|b'))
    const same = await rules.preview(RULE)
    assert.deepEqual([same.matched, same.would_refuse, same.newly_refused, same.newly_allowed], [12, 4, 0, 0])
    assert.deepEqual(
      same.top_keys.map(({ key }) => key),
      [`rule:api:-|a\\|b|${ALICE}`, `rule:api:user:7|-|${ALICE}`, 'rule:api:user:7|\\-', 'rule:api:user:7|a\\|b'],
    )
    assert.equal(same.uncovered.count, 0)
    const reasons = async (key: string) => (await rules.preview({ ...RULE, key })).uncovered.reasons
    // What the log has of a part is used, and what it lacks is not guessed.
    assert.deepEqual(await reasons('user'), {})
    assert.deepEqual(await reasons('header:x-a'), {})
    assert.deepEqual(await reasons('all'), {})
    assert.deepEqual(await reasons('ip'), { address_not_logged: 6 })
    assert.deepEqual(await reasons('ip+user'), { address_not_logged: 6 })
    assert.deepEqual(await reasons('cookie:x-a+user'), { cookie_not_logged: 12 })
    assert.deepEqual(await reasons('route'), { route_not_logged: 12 })
    const all = await rules.preview({ ...RULE, key: 'all' })
    assert.deepEqual([all.would_refuse, all.top_keys[0]?.key], [10, 'rule:api:all'])
    const byHeader = await rules.preview({ ...RULE, key: 'header:X-A' })
    assert.deepEqual(byHeader.top_keys.map(({ key }) => key).sort(), [
      'rule:api:-',
      `rule:api:${ALICE}`,
      'rule:api:a|b',
    ])
  })

  test('a preview knows an override of the address or the user that is a part of the client', async (t) => {
    const { app, statuses } = await start(t, provider)
    const { rules, client } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { ...RULE, key: 'header:X-A+ip' } })
    await statuses(2, '/api/x', asking(undefined, 'a'))
    await client.rateLimitOverride.create({ data: { client: `ip:${ALICE}`, effect: 'deny' } })
    const { matched, notes } = await rules.preview({ ...RULE, key: 'ip' })
    assert.equal(matched, 0)
    assert.ok(notes.some((note) => note.startsWith('2 requests are decided by overrides')))
  })

  test('a preview takes no part of a client from the value of a single header', async (t) => {
    const { app, statuses } = await start(t, provider)
    const { rules, client } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { ...RULE, key: 'header:X-A' } })
    await statuses(3, '/api/x', asking('7', '1|ip:198.51.100.1'))
    const byAddress = await rules.preview({ ...RULE, key: 'ip' })
    assert.deepEqual(byAddress.uncovered.reasons, { address_not_logged: 3 })
    const byHeader = await rules.preview({ ...RULE, key: 'header:X-A' })
    assert.deepEqual(
      byHeader.top_keys.map(({ key, over_limit }) => [key, over_limit]),
      [['rule:api:1|ip:198.51.100.1', 1]],
    )
  })

  test('a preview does not use what the log cut of a long client', async (t) => {
    const { app, statuses } = await start(t, provider)
    const { rules, client } = app.smartRateLimit
    await client.rateLimitRule.create({ data: { ...RULE, key: 'ip+header:X-A' } })
    await statuses(1, '/api/x', asking('7', 'x'.repeat(300)))
    const reasons = async (key: string) => (await rules.preview({ ...RULE, key })).uncovered.reasons
    assert.deepEqual(await reasons('ip+header:X-A'), { key_cut: 1 })
    assert.deepEqual(await reasons('header:X-A'), { header_not_logged: 1 })
    assert.deepEqual(await reasons('user+route'), { route_not_logged: 1 })
    assert.deepEqual(await reasons('all'), {})
  })
})
