/** Charges of requests that run while their window ends, or their rule is edited, renamed, deleted or overridden. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { type RunningApp, startRunningApp } from '../support/running-requests.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const TOKENS = { name: 'tokens', rate: '100/m', unit: 'tokens', reserve: 30 }

function edit({ app }: RunningApp, data: Readonly<Record<string, string | number | boolean>>): Promise<unknown> {
  return app.smartRateLimit.client.rateLimitRule.update({ where: { name: 'tokens' }, data })
}

function onStore(name: string, open?: () => Promise<TestStore>): void {
  for (const algorithm of RATE_ALGORITHMS) {
    test(
      `a request that began under a rate of other windows counts in those of today, and takes nothing away: ${algorithm}, counted in ${name}`,
      long(),
      async (t) => {
        const app = await startRunningApp(t, [{ ...TOKENS, algorithm }], { open })
        const [before, unused] = [await app.run(), await app.run()]
        await edit(app, { rate: '1000/h' })
        const since = await app.run()
        assert.equal(await since.charge(200), 800)
        await since.end()
        await app.haveCounts('alice', { tokens: 200 })
        for (let charged = 20; charged <= 200; charged += 20) {
          assert.equal(await before.charge(20), 800 - Math.max(0, charged - 30))
        }
        await before.end()
        // Nothing is given back to windows that have not taken it.
        assert.equal(await unused.charge(10), 630)
        await unused.end()
        await app.haveCounts('alice', { tokens: 370 })
      },
    )

    test(`a charge counts in the window then current, and what it reserved is not given back to that: ${algorithm}, counted in ${name}`, async (t) => {
      const app = await startRunningApp(t, [{ ...TOKENS, algorithm }], { open })
      const [long, short] = [await app.run(), await app.run()]
      app.clock.advance(2 * MINUTE_MS)
      // 30 of them were reserved in a window that has ended.
      assert.equal(await long.charge(70), 60)
      assert.equal(await short.charge(5), 60)
      await short.end()
      await long.end()
      await app.haveCounts('alice', { tokens: 40 })
    })

    test(`a rate that is raised or lowered while a counter is in debt applies at once: ${algorithm}, counted in ${name}`, async (t) => {
      const app = await startRunningApp(t, [{ ...TOKENS, reserve: 0, algorithm }], { open })
      const running = await app.run()
      assert.equal(await running.charge(250), 0)
      assert.equal(await app.by('alice'), 429)
      await edit(app, { rate: '1000/m' })
      await app.haveCounts('alice', { tokens: 250 })
      assert.equal(await running.charge(50), 700)
      await edit(app, { rate: '200/m' })
      assert.equal(await app.by('alice'), 429)
      assert.equal(await running.charge(1), 0)
      await running.end()
      await edit(app, { rate: '2000/m' })
      await app.haveCounts('alice', { tokens: 301 })
    })
  }
}

describe('in memory', () => onStore('memory'))
forEachStore(onStore)
onRedisCluster(onStore)

test('a rule that is renamed begins anew, and charges of requests that it met before are not its own', async (t) => {
  const app = await startRunningApp(t, [TOKENS])
  const running = await app.run()
  await edit(app, { name: 'words' })
  assert.equal(await running.charge(50), 50, 'they count for the rule as it was')
  await running.end()
  await app.haveCounts('alice', { words: 0 })
  await app.app.smartRateLimit.client.rateLimitRule.update({ where: { name: 'words' }, data: { name: 'tokens' } })
  await app.haveCounts('alice', { tokens: 50 })
})

test('a rule that is switched off or deleted counts on for its requests, and has their charges when it is back', async (t) => {
  const app = await startRunningApp(t, [TOKENS])
  const running = await app.run()
  await edit(app, { isActive: false })
  assert.equal(await running.charge(50), 50)
  assert.deepEqual(await app.counts('alice'), { default: 0 })
  await app.app.smartRateLimit.client.rateLimitRule.delete({ where: { name: 'tokens' } })
  assert.equal(await running.charge(10), 40)
  await running.end()
  const data = { ...TOKENS, pathPattern: '^/', key: 'user' }
  await app.app.smartRateLimit.client.rateLimitRule.create({ data })
  await app.haveCounts('alice', { tokens: 60 })
})

test('a rule that counts another unit now is not charged for what its requests used before', async (t) => {
  const app = await startRunningApp(t, [TOKENS])
  const running = await app.run()
  await edit(app, { unit: 'content-bytes' })
  assert.equal(await running.charge(5_000), null)
  await running.end()
  await app.haveCounts('alice', { tokens: 30 })
})

test('a rule of block false lets everything through, counts all that is charged, and logs what it would have refused', async (t) => {
  const app = await startRunningApp(t, [{ ...TOKENS, block: false }], { plugin: { headers: 'both', logEvents: true } })
  const first = await app.run()
  assert.equal(await first.charge(90), 10)
  await first.end()
  const second = await app.run()
  assert.equal(await second.charge(25), 0, 'it could reserve nothing, so that it is charged for all')
  const { status, headers } = await second.end()
  assert.equal(status, 200)
  assert.match(String(headers['ratelimit-policy']), /^"tokens";q=100;qu="tokens"/)
  await app.haveCounts('alice', { tokens: 116 })
  const { rateLimitEvent } = app.app.smartRateLimit.client
  await eventually('both are logged', async () => (await rateLimitEvent.count()) === 2)
  const events = await rateLimitEvent.findMany({ orderBy: { id: 'asc' } })
  assert.deepEqual(
    events.map(({ allowed, outcome, count, limit }) => ({ allowed, outcome, count, limit })),
    [
      { allowed: true, outcome: 'allowed', count: 30, limit: 100 },
      { allowed: true, outcome: 'over_limit', count: 120, limit: 100 },
    ],
  )
})

test("an override's rate counts requests, in place of a limit of tokens without a group; limits of groups stay", async (t) => {
  const app = await startRunningApp(t, [TOKENS, { ...TOKENS, name: 'budget', group: 'budget', rate: '500/month' }])
  await app.app.smartRateLimit.client.rateLimitOverride.create({ data: { client: 'user:alice', effect: '3/m' } })
  const alice = await app.run()
  assert.equal(await alice.charge(400), 100)
  await alice.end()
  await app.haveCounts('alice', { override: 1, budget: 400 })
  const bob = await app.run('bob')
  assert.equal(await bob.charge(40), 60)
  await bob.end()
  await app.haveCounts('bob', { tokens: 40, budget: 40 })
})

test('a charge counts up to an hour after the response; after that it rejects, and charges nothing', async (t) => {
  const app = await startRunningApp(t, [{ ...TOKENS, rate: '100/d' }])
  const running = await app.run()
  app.clock.advance(2 * HOUR_MS)
  assert.equal(await running.charge(10), 70, 'it may run as long as it likes')
  await running.end()
  await app.haveCounts('alice', { tokens: 10 })
  app.clock.advance(HOUR_MS)
  assert.equal(await running.charge(10), 80)
  app.clock.advance(1)
  await assert.rejects(running.charge(10), {
    name: 'FastifyError',
    message: 'The request ended more than an hour ago: charge it within an hour of its end',
  })
  await app.haveCounts('alice', { tokens: 20 })
})
