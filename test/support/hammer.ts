/**
 * One of several processes that ask for the same counters at once, one for each policy.
 *
 *     node --import tsx hammer.ts <location JSON> <checks> <policies JSON> <now>…
 *
 * For every policy, and every `now`, it asks so many times, in batches, and prints how many were allowed.
 */
import type { Check } from '../../src/limiter/algorithm.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { openStore } from './store-location.js'

const [location, checks, policies, ...moments] = process.argv.slice(2)
const BATCH = 7

let nextPermit = process.pid * 1_000_000

async function countAllowed(store: Store, check: Check, nowMs: number): Promise<number> {
  let left = Number(checks)
  let allowed = 0
  const work = async () => {
    while (left > 0) {
      const batch = Array.from({ length: Math.min(BATCH, left) }, () => ({ ...check, permit: nextPermit++ }))
      left -= batch.length
      for (const decision of await store.check(batch, nowMs)) if (decision.allowed) allowed++
    }
  }
  await Promise.all(Array.from({ length: store.concurrency }, work))
  return allowed
}

const store = openStore(JSON.parse(location ?? ''))
for (const [index, policy] of JSON.parse(policies ?? '').entries()) {
  const check = { key: `shared ${index}`, policy, cost: 1 }
  for (const now of moments) console.log(await countAllowed(store, check, Number(now)))
}
await store.close()
