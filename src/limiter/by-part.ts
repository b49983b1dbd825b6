import { groupBy } from '../ground/group-by.js'
import type { Limiter } from './limiter.js'

/** A part that was not asked for so long is forgotten when another one appears: nodes come and go. */
const UNUSED_MS = 60_000

interface Part {
  readonly limiter: Limiter
  usedMs: number
}

/**
 * Creates a limiter for a store whose parts fail alone, such as the nodes of a cluster: each has batches and a circuit
 * breaker of its own, so that one that is away makes no request wait that is counted by another.
 *
 * @param partOf returns the part that has a counter now
 * @param create creates the limiter of a part
 */
export function limiterByPart(partOf: (key: string) => string, create: (part: string) => Limiter): Limiter {
  const parts = new Map<string, Part>()
  /** What parts that are forgotten have counted. */
  const forgotten = { storeErrors: 0, lostCharges: 0, lostRefunds: 0 }
  let lastMs = 0

  function limiterFor(key: string, nowMs: number): Limiter {
    const name = partOf(key)
    const part = parts.get(name) ?? open(name, nowMs)
    part.usedMs = nowMs
    lastMs = nowMs
    return part.limiter
  }

  function open(name: string, nowMs: number): Part {
    for (const [other, { limiter, usedMs }] of parts) {
      if (Math.abs(nowMs - usedMs) < UNUSED_MS || limiter.owedCharges + limiter.owedRefunds > 0) continue
      parts.delete(other)
      forgotten.storeErrors += limiter.storeErrors
      forgotten.lostCharges += limiter.lostCharges
      forgotten.lostRefunds += limiter.lostRefunds
      void limiter.close()
    }
    const part = { limiter: create(name), usedMs: nowMs }
    parts.set(name, part)
    return part
  }

  const limiters = () => [...parts.values()].map(({ limiter }) => limiter)

  return {
    check: (check, nowMs, waitedMs, leads) => limiterFor(check.key, nowMs).check(check, nowMs, waitedMs, leads),
    charge: (check, nowMs) => limiterFor(check.key, nowMs).charge(check, nowMs),
    madeByFallback: (decision) => limiters().some((limiter) => limiter.madeByFallback(decision)),
    remembered: (check, nowMs) => limiterFor(check.key, nowMs).remembered(check, nowMs),
    decideLocally: (check, nowMs) => limiterFor(check.key, nowMs).decideLocally(check, nowMs),
    checkLeased: (check, nowMs, waitedMs) => limiterFor(check.key, nowMs).checkLeased(check, nowMs, waitedMs),
    settle: (settlement, nowMs) => limiterFor(settlement.key, nowMs).settle(settlement, nowMs),
    giveBack(settlements, nowMs) {
      const byLimiter = groupBy(settlements, ({ key }) => limiterFor(key, nowMs))
      for (const [limiter, some] of byLimiter) limiter.giveBack(some, nowMs)
    },
    async reset(keys) {
      const names = keys.map(partOf)
      await Promise.all(
        [...new Set(names)].map((name) => {
          const { limiter } = parts.get(name) ?? open(name, lastMs)
          return limiter.reset(keys.filter((_key, index) => names[index] === name))
        }),
      )
    },
    refund: (settlement, nowMs) => limiterFor(settlement.key, nowMs).refund(settlement, nowMs),
    async resetAll(prefixes) {
      // One part asks the whole store, after which the others forget, too.
      const [first = open('', lastMs).limiter] = limiters()
      try {
        await first.resetAll(prefixes)
      } finally {
        for (const limiter of limiters()) limiter.forgetAll()
      }
    },
    forgetAll() {
      for (const limiter of limiters()) limiter.forgetAll()
    },
    async close() {
      await Promise.all(limiters().map((limiter) => limiter.close()))
    },
    get storeIsDown() {
      return limiters().some(({ storeIsDown }) => storeIsDown)
    },
    get storeErrors() {
      return limiters().reduce((sum, { storeErrors }) => sum + storeErrors, forgotten.storeErrors)
    },
    get owedCharges() {
      return limiters().reduce((sum, { owedCharges }) => sum + owedCharges, 0)
    },
    get lostCharges() {
      return limiters().reduce((sum, { lostCharges }) => sum + lostCharges, forgotten.lostCharges)
    },
    get owedRefunds() {
      return limiters().reduce((sum, { owedRefunds }) => sum + owedRefunds, 0)
    },
    get lostRefunds() {
      return limiters().reduce((sum, { lostRefunds }) => sum + lostRefunds, forgotten.lostRefunds)
    },
  }
}
