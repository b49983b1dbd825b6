/** Asking ahead says what a check will say, and changes nothing of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Check, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import { toDecision, toPeek } from '../../src/limiter/peek.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { fc } from '../support/properties.js'

const NOW_MS = 1_705_161_600_000
const STEPS = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 0, max: 40_000 }),
    cost: fc.integer({ min: 1, max: 6 }),
    rate: fc.constantFrom('5/m', '5/m', '8/m, 12/h', '8/m, 12/h', '3/10s, 8/m, 20/h', '0/m', '0/m, 5/h'),
    uses: fc.boolean(),
  }),
  { maxLength: 60 },
)

for (const algorithm of RATE_ALGORITHMS) {
  test(`what is foretold is what the check then decides: ${algorithm}`, () => {
    fc.assert(
      fc.property(STEPS, (steps) => {
        const [peeked, only] = [new MemoryStore(), new MemoryStore()]
        let nowMs = NOW_MS
        for (const { afterMs, cost, rate, uses } of steps) {
          nowMs += afterMs
          const check: Check = { key: rate, policy: toPolicy(algorithm, parseRate(rate)), cost }
          const { resetMs: _, windows, ...foretold } = toDecision(check, peeked.checkOne(toPeek(check), nowMs))
          assert.equal(foretold.allowed, foretold.count <= foretold.limit)
          if (windows !== undefined) {
            const { limit, remaining } = foretold
            assert.ok(windows.some((window) => window.limit === limit && window.remaining === remaining))
          }
          if (!uses) continue
          const decided = peeked.checkOne(check, nowMs)
          assert.deepEqual(decided, only.checkOne(check, nowMs), 'asking used nothing')
          const { allowed, limit, retryAfterMs, count, remaining } = decided
          assert.deepEqual([foretold.allowed, foretold.retryAfterMs], [allowed, retryAfterMs])
          if (!allowed) continue
          assert.deepEqual([foretold.limit, foretold.count, foretold.remaining], [limit, count, remaining])
          assert.deepEqual(
            windows?.map((window) => window.remaining),
            decided.windows?.map((window) => window.remaining),
          )
        }
      }),
    )
  })
}

test('what was let through beyond the limit is charged, by every algorithm', () => {
  for (const algorithm of RATE_ALGORITHMS) {
    for (const rate of ['5/m', '5/m, 100/h']) {
      const store = new MemoryStore()
      const check: Check = { key: 'a', policy: toPolicy(algorithm, parseRate(rate)), cost: 3 }
      for (let times = 0; times < 4; times++) store.checkOne({ ...check, charges: true }, NOW_MS)
      assert.equal(toDecision(check, store.checkOne(toPeek(check), NOW_MS)).count, 15)
    }
  }
})
