import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { analyticsFor } from '../../src/plugin/analytics.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents, logRows } from '../support/events.js'
import { foldRollups } from '../support/rollups.js'

forEachDatabase((provider, open) => {
  test('rules are counted with what they let through and what they blocked', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const atMs = clock.now()
    await logEvents(client, { key: 'rule:api:203.0.113.7', ruleName: 'api', allowed: 1, blocked: 1, atMs })
    await logEvents(client, { key: 'rule:login:203.0.113.7', ruleName: 'login', blocked: 3, atMs })
    await logEvents(client, { key: 'rule:search:203.0.113.7', ruleName: 'search', allowed: 2, atMs })
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 9, atMs })
    await logEvents(client, { key: 'rule:old:203.0.113.7', ruleName: 'old', allowed: 9, atMs: atMs - 8 * DAY_MS })

    const analytics = analyticsFor(database, clock)
    const hits = [
      { rule_name: 'login', hits: 3, blocked: 3 },
      { rule_name: 'api', hits: 2, blocked: 1 },
      { rule_name: 'search', hits: 2, blocked: 0 },
    ]
    assert.deepEqual(await analytics.getRuleHitCounts(), hits)
    assert.deepEqual(await analytics.getRuleHitCounts({ limit: 2 }), hits.slice(0, 2))
  })

  test('each rule of a request is counted, and blocked are the requests that it refused itself', async (t) => {
    const clock = fakeClock()
    const { client, database, close } = await open(clock)
    t.after(close)
    const timestampMs = clock.now() - 3 * DAY_MS
    const refused = { timestampMs, allowed: false, outcome: 'over_limit' } as const
    await logRows(database, [
      { timestampMs, ruleName: 'search', rules: '+search:+team' },
      { ...refused, ruleName: 'team', rules: '+search:-team' },
      { ...refused, ruleName: 'team', rules: '-search:-team:+all' },
      // Another limit than a rule decided.
      { timestampMs, ruleName: '', policy: 'default', rules: '+team:+all' },
      { ...refused, ruleName: '', policy: 'ceiling', rules: '+search:+team' },
      { timestampMs, ruleName: 'search', rules: '' },
    ])
    const hits = [
      { rule_name: 'team', hits: 5, blocked: 2 },
      { rule_name: 'search', hits: 5, blocked: 1 },
      { rule_name: 'all', hits: 2, blocked: 0 },
    ].toSorted((one, other) => other.hits - one.hits || (one.rule_name < other.rule_name ? -1 : 1))
    const analytics = analyticsFor(database, clock)
    const options = { days: 3.5 }
    assert.deepEqual(await analytics.getRuleHitCounts(options), hits, 'from the log')
    await foldRollups(database, clock.now())
    assert.deepEqual(await analytics.getRuleHitCounts(options), hits, 'from the sums')
    assert.equal((await analytics.getTrafficSummary(options)).total, 6, 'each request is one')
    await client.rateLimitEvent.deleteMany({ where: { ruleName: 'team' } })
    await foldRollups(database, clock.now())
    assert.deepEqual(await analytics.getRuleHitCounts(options), [
      { rule_name: 'search', hits: 3, blocked: 0 },
      { rule_name: 'team', hits: 3, blocked: 0 },
      { rule_name: 'all', hits: 1, blocked: 0 },
    ])
  })

  test('whatever raw SQL writes as the rules of an event, events are folded', async (t) => {
    const clock = fakeClock()
    const { database, close } = await open(clock)
    t.after(close)
    const names = ['x'.repeat(300), '"', '\\', '\u0001\n\t', 'ä😀', "'", ':', '+', '-', '[', '{}', 'a:b', '%']
    await logRows(
      database,
      names.map((name) => ({ timestampMs: clock.now() - DAY_MS, rules: `+${name}:-b` })),
    )
    if (provider === 'sqlite') {
      const { table } = database.dialect
      await database.execute(`UPDATE ${table('rate_limit_event')} SET rules = CAST('+blob:-b' AS BLOB) WHERE id = 1`)
      await database.execute(`UPDATE ${table('rate_limit_event')} SET rules = x'ff003a2b' WHERE id = 2`)
    }
    await foldRollups(database, clock.now())
    const hits = await analyticsFor(database, clock).getRuleHitCounts()
    assert.equal(hits[0]?.rule_name, 'b')
    assert.equal(hits[0]?.blocked, provider === 'sqlite' ? names.length - 1 : names.length)
    assert.ok(hits.some(({ rule_name }) => rule_name === 'ä😀'))
  })
})
