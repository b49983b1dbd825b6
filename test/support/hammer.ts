/**
 * One of several processes that ask for the same counters at once.
 *
 *     node --import tsx hammer.ts <place JSON> <checks> <policy JSON> <now>…
 *
 * For every `now` it asks so many times, in batches, and prints how many were allowed.
 */
import { openStore } from './store-place.js'

const [place, checks, policy, ...moments] = process.argv.slice(2)
const BATCH = 7

async function hammer(): Promise<void> {
  const store = openStore(JSON.parse(place ?? ''))
  const check = { key: 'shared', policy: JSON.parse(policy ?? ''), cost: 1 }
  for (const now of moments) {
    let left = Number(checks)
    let allowed = 0
    const work = async () => {
      while (left > 0) {
        const batch = Array.from({ length: Math.min(BATCH, left) }, () => check)
        left -= batch.length
        for (const decision of await store.check(batch, Number(now))) if (decision.allowed) allowed++
      }
    }
    await Promise.all(Array.from({ length: store.concurrency }, work))
    console.log(allowed)
  }
  await store.close()
}

await hammer()
