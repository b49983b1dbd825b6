/** Previews of rules of a group: what their limit would have refused beside what others do. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MINUTE_MS, SECOND_MS } from '../../../src/ground/time/clock.js'
import type { RuleCandidate } from '../../../src/index.js'
import { RATE_ALGORITHMS } from '../../../src/limiter/algorithm.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { openDatabase, startApp } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'
import { logRows } from '../../support/events.js'

const TEAM = { name: 'team', group: 'team', pathPattern: '.', rate: '3/m' } satisfies RuleCandidate
const PASSED = {} satisfies Partial<RateLimitEvent>
const REFUSED = { allowed: false, outcome: 'over_limit' } as const

/** Refused by the default limit, by a rule of the group without a name, and by a rule of the group `org`. */
const BY_DEFAULT = { ...REFUSED, policy: 'default' }
const BY_API = { ...REFUSED, policy: 'api', ruleName: 'api' }
const BY_ORG = { ...REFUSED, policy: 'org', ruleName: 'org', rules: '+api:-org' }
/** Refused by the rule itself, as it was then; and by another rule as well. */
const BY_TEAM = { ...REFUSED, policy: 'team', ruleName: 'team', rules: '+api:-team' }
const BY_BOTH = { ...REFUSED, policy: 'org', ruleName: 'org', rules: '-org:-team' }

async function start(t: TestContext, provider: Provider) {
  const clock = fakeClock()
  const opened = await openDatabase(t, provider, clock)
  const { app } = await startApp(t, { database: opened, clock, plugin: { logEvents: true, useDynamicRules: true } })
  const fromMs = Math.floor(clock.now() / MINUTE_MS) * MINUTE_MS - 10 * MINUTE_MS
  for (const [name, group] of [
    ['api', ''],
    ['org', 'org'],
  ] as const) {
    await opened.client.rateLimitRule.create({ data: { name, group, pathPattern: '.', rate: '1000/m' } })
  }
  await app.smartRateLimit.rules.reload()
  /** Logs requests, a second after each other. */
  const log = (...events: readonly Partial<RateLimitEvent>[]) =>
    logRows(
      opened.database,
      events.map((event, index) => ({ timestampMs: fromMs + index * SECOND_MS, ...event })),
    )
  const preview = app.smartRateLimit.rules.preview
  const counts = async (candidate: RuleCandidate) => {
    const { matched, over_limit, refused_then, newly_refused, newly_allowed } = await preview(candidate)
    return { matched, over_limit, refused_then, newly_refused, newly_allowed }
  }
  return { ...opened, log, preview, counts }
}

forEachDatabase((provider) => {
  for (const algorithm of RATE_ALGORITHMS) {
    test(`what others refuse takes nothing of a limit that would admit it: ${algorithm}`, async (t) => {
      const { log, counts, preview } = await start(t, provider)
      await log(PASSED, BY_DEFAULT, BY_API, BY_ORG, PASSED, BY_API, PASSED, PASSED, BY_API, BY_ORG, PASSED)
      const candidate = { ...TEAM, algorithm }
      assert.deepEqual(await counts(candidate), {
        matched: 11,
        over_limit: 2,
        refused_then: 6,
        newly_refused: 2,
        newly_allowed: 0,
      })
      const { sentence, would_refuse, top_keys } = await preview(candidate)
      assert.equal(
        sentence,
        '11 of 11 requests matched; 18.2% of these would have been refused in addition, from 1 client.',
      )
      assert.equal(would_refuse, 2)
      assert.deepEqual(top_keys, [
        { key: 'rule:team:203.0.113.7', matched: 11, over_limit: 2, would_refuse: 2, refused_then: 6 },
      ])
    })
  }

  test('a limit admits what fits into each of its windows, by the cost of the rule', async (t) => {
    const { log, counts } = await start(t, provider)
    await log(PASSED, BY_API, PASSED, PASSED, BY_API)
    const overLimit = async (fields: object) => (await counts({ ...TEAM, ...fields })).over_limit
    assert.equal(await overLimit({}), 0)
    assert.equal(await overLimit({ cost: 2 }), 2)
    assert.equal(await overLimit({ rate: '10/m, 2/h', cost: 2 }), 2)
    assert.equal(await overLimit({ rate: '10/m, 6/h', cost: 2 }), 0)
  })

  test('what the rule itself refused is let through by a higher rate, unless another rule refused it too', async (t) => {
    const { log, counts } = await start(t, provider)
    await log(PASSED, BY_TEAM, BY_BOTH, BY_TEAM)
    assert.deepEqual(await counts({ ...TEAM, rate: '100/m' }), {
      matched: 4,
      over_limit: 0,
      refused_then: 3,
      newly_refused: 0,
      newly_allowed: 2,
    })
    assert.deepEqual((await counts({ ...TEAM, rate: '2/m' })).newly_allowed, 1)
  })

  test('what a rule of a named group refused stays refused whatever a rule without one does', async (t) => {
    const { log, counts, preview } = await start(t, provider)
    await log(PASSED, BY_API, BY_ORG, { ...BY_ORG, rules: '-api:-org' }, BY_DEFAULT)
    const candidate = { name: 'api', pathPattern: '.', rate: '100/m' }
    assert.deepEqual(await counts(candidate), {
      matched: 5,
      over_limit: 0,
      refused_then: 4,
      newly_refused: 0,
      newly_allowed: 2,
    })
    assert.doesNotMatch((await preview({ ...candidate, rate: '1/m' })).sentence, /in addition/)
  })

  test("an override's rate decides instead of a rule without a group alone, and a denial instead of all", async (t) => {
    const { log, counts, client } = await start(t, provider)
    const [limited, denied] = ['ip:203.0.113.1', 'ip:203.0.113.2']
    await client.rateLimitOverride.create({ data: { client: limited, effect: '5/m' } })
    await client.rateLimitOverride.create({ data: { client: denied, effect: 'deny' } })
    await log(PASSED, { client: limited, key: limited, policy: 'override' }, { client: denied, key: denied })
    assert.equal((await counts(TEAM)).matched, 2)
    assert.equal((await counts({ ...TEAM, group: '', priority: 1 })).matched, 1)
  })
})
