/** Limits in tokens: what a request reserves, is charged for, and gets back, on every store and by every algorithm. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Charges, ChargesLeft } from '../../src/index.js'
import { RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { type GroupRule, startGroupApp } from '../support/group-app.js'
import { long } from '../support/long.js'
import { forEachStore, onRedisCluster, type TestStore } from '../support/stores.js'

const TOKENS = { name: 'tokens', rate: '100/m', unit: 'tokens', reserve: 30 }

/** An app whose requests are charged for what their header says, before they answer with what is left. */
async function startCharging(
  t: Parameters<typeof startGroupApp>[0],
  rules: readonly GroupRule[],
  open?: () => Promise<TestStore>,
) {
  const late: (() => Promise<ChargesLeft>)[] = []
  const started = await startGroupApp(t, rules, {
    open,
    routes(app) {
      app.get('/*', async (request) => {
        const charges = JSON.parse(String(request.headers['x-charges'] ?? '[]')) as Charges[]
        const left: ChargesLeft[] = []
        for (const each of charges) left.push(await app.smartRateLimit.charge(request, each))
        late.push(() => app.smartRateLimit.charge(request, { tokens: 5 }))
        return left
      })
    },
  })
  return {
    ...started,
    have: started.haveCounts,
    late,
    /** Asks by a user who is charged, and returns the status, or what was left after each charge. */
    async use(user: string, ...charges: Charges[]): Promise<number | ChargesLeft[]> {
      const headers = { 'x-user': user, 'x-charges': JSON.stringify(charges) }
      const { status, text } = await started.request('/', { headers })
      return status === 200 ? JSON.parse(text) : status
    },
  }
}

function onStore(name: string, open?: () => Promise<TestStore>): void {
  for (const algorithm of RATE_ALGORITHMS) {
    test(
      `a request reserves, is charged, and gets the rest back: ${algorithm}, counted in ${name}`,
      long(),
      async (t) => {
        const { use, have } = await startCharging(t, [{ ...TOKENS, algorithm }], open)
        assert.deepEqual(await use('alice', { tokens: 10 }), [{ tokens: 70 }])
        await have('alice', { tokens: 10 })
        assert.deepEqual(await use('alice', { tokens: 20 }, { tokens: 25 }), [{ tokens: 60 }, { tokens: 45 }])
        await have('alice', { tokens: 55 })
        assert.deepEqual(await use('alice'), [])
        await have('alice', { tokens: 85 })
        assert.equal(await use('alice'), 429, '15 are left, and 30 would be reserved')
        await have('alice', { tokens: 85 })
      },
    )

    test(`a charge is never refused, and the next requests wait for its debt: ${algorithm}, counted in ${name}`, async (t) => {
      const { use, have, request, clock } = await startCharging(t, [{ ...TOKENS, reserve: 0, algorithm }], open)
      assert.deepEqual(await use('alice', { tokens: 250 }), [{ tokens: 0 }])
      // A refused request counts itself.
      await have('alice', { tokens: 251 })
      const { status, headers, text } = await request('/', { headers: { 'x-user': 'alice' } })
      assert.deepEqual([status, headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']], [429, '100', '0'])
      assert.match(JSON.parse(text).message, /^Rate limit of tokens exceeded, retry in \d+ seconds$/)
      const waitMs = Number(headers['retry-after']) * 1_000
      clock.advance(waitMs - 2_000)
      assert.equal(await use('alice'), 429)
      clock.advance(2_000)
      assert.deepEqual(await use('alice'), [])
    })
  }

  test(`limits of one unit in two groups are both charged, and refusals cost neither: counted in ${name}`, async (t) => {
    const all = { ...TOKENS, name: 'all', group: 'all', key: 'all', rate: '120/m' }
    const { use, have } = await startCharging(t, [TOKENS, all], open)
    assert.deepEqual(await use('alice', { tokens: 50 }), [{ tokens: 50 }])
    assert.deepEqual(await use('bob', { tokens: 10 }), [{ tokens: 40 }])
    await have('bob', { tokens: 10, all: 60 })
    assert.deepEqual(await use('carol', { tokens: 35 }), [{ tokens: 25 }])
    await have('carol', { tokens: 35, all: 95 })
    assert.equal(await use('dora'), 429)
    await have('dora', { tokens: 0, all: 95 })
  })

  test(`a charge tells the least that is left in any window: counted in ${name}`, async (t) => {
    const { use, clock } = await startCharging(t, [{ ...TOKENS, rate: '100/m, 1000/month', reserve: 0 }], open)
    assert.deepEqual(await use('alice', { tokens: 60 }), [{ tokens: 40 }])
    clock.advance(60_000)
    // The month has the smallest share left, and more than the minute.
    assert.deepEqual(await use('alice', { tokens: 0 }, { tokens: 10 }), [{ tokens: 100 }, { tokens: 90 }])
  })

  test(`what is charged after the response is counted, too: counted in ${name}`, async (t) => {
    const { use, have, late, clock } = await startCharging(t, [TOKENS], open)
    await use('alice')
    await have('alice', { tokens: 30 })
    // The first charge settles what the request had reserved.
    assert.deepEqual(await late[0]?.(), { tokens: 95 })
    await have('alice', { tokens: 5 })
    assert.deepEqual(await late[0]?.(), { tokens: 90 })
    clock.advance(60_000)
    assert.deepEqual(await late[0]?.(), { tokens: 95 })
    await have('alice', { tokens: 5 })
  })
}

describe('in memory', () => onStore('memory'))
forEachStore(onStore)
onRedisCluster(onStore)
