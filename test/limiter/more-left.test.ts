/** The time until more is left, of checks that are allowed: not a millisecond earlier. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import type { Check, Decision } from '../../src/limiter/algorithm.js'
import { parseRate, toPolicy } from '../../src/limiter/rate.js'
import { MemoryStore } from '../../src/limiter/stores/memory/memory-store.js'
import { fc } from '../support/properties.js'

for (const algorithm of ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const) {
  test(`more is left after that time, and not before: ${algorithm}`, () => {
    const step = fc.record({
      waitMs: fc.integer({ min: 0, max: 90_000 }),
      cost: fc.integer({ min: 1, max: 3 }),
      charges: fc.boolean(),
    })
    const history = fc.tuple(fc.integer({ min: 1, max: 9 }), fc.array(step, { minLength: 1, maxLength: 20 }))
    const property = fc.property(history, ([limit, steps]) => {
      const store = new MemoryStore()
      const policy = toPolicy(algorithm, parseRate(`${limit}/m`))
      const ask = (nowMs: number, check: Partial<Check> = {}): Decision => {
        const [decision] = store.check([{ key: 'a', policy, cost: 0, ...check }], nowMs)
        assert.ok(decision)
        return decision
      }
      let nowMs = 10 * MINUTE_MS
      for (const { waitMs, ...check } of steps) {
        nowMs += waitMs
        const { allowed, remaining, resetMs, moreMs = resetMs } = ask(nowMs, check)
        if (!allowed || remaining === limit) continue
        assert.ok(moreMs > 0 && moreMs <= resetMs)
        assert.equal(ask(nowMs + moreMs - 1).remaining, remaining)
        assert.ok(ask(nowMs + moreMs).remaining > remaining)
        nowMs += moreMs
      }
    })
    fc.assert(property, { numRuns: 200 })
  })
}
