/**
 * One of several processes that reserve, charge and give back at once, of the same counters.
 *
 *     node --import tsx charge-hammer.ts <location JSON> <rounds> <now> <counters JSON>
 *
 * For every counter, which is an array of its key, its policy and whether it is charged, it prints what it has used in all, and
 * the highest count that a reservation was admitted with.
 */
import type { Check, Policy, Settlement } from '../../src/limiter/algorithm.js'
import { toSettlement } from '../../src/limiter/settlement.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { seededRandom } from '../conformance/checks.js'
import { openStore } from './store-location.js'

const [location, rounds, now, counters] = process.argv.slice(2)
const NOW_MS = Number(now)
const BATCH = 7

const random = seededRandom(process.pid)
const upTo = (most: number) => Math.floor(random() * (most + 1))

/** Makes one batch of checks, and gives back a part of what was reserved: all, some or nothing. */
async function useOnce(store: Store, key: string, policy: Policy, isCharged: boolean) {
  const batch = Array.from({ length: BATCH }, (): Check => {
    return isCharged && upTo(3) === 0
      ? { key, policy, cost: upTo(9), charges: true }
      : { key, policy, cost: 1 + upTo(8) }
  })
  const decisions = await store.check(batch, NOW_MS)
  let [used, highest] = [0, 0]
  const settlements: Settlement[] = []
  for (const [index, check] of batch.entries()) {
    const decision = decisions[index]
    if (decision?.allowed !== true) continue
    used += check.cost
    if (check.charges) continue
    highest = Math.max(highest, decision.count)
    const back = upTo(check.cost)
    used -= back
    settlements.push({ ...toSettlement(check, decision, NOW_MS), cost: back })
  }
  await store.settle?.(settlements, NOW_MS)
  return { used, highest }
}

const store = openStore(JSON.parse(location ?? ''))
for (const [key, policy, isCharged] of JSON.parse(counters ?? '')) {
  let [used, highest, left] = [0, 0, Number(rounds)]
  const work = async () => {
    while (left-- > 0) {
      const once = await useOnce(store, key, policy, isCharged)
      used += once.used
      highest = Math.max(highest, once.highest)
    }
  }
  await Promise.all(Array.from({ length: store.concurrency }, work))
  console.log(used, highest)
}
await store.close()
