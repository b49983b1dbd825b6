import type { Check, Decision } from '../../limiter/algorithm.js'

type CheckFunction = (check: Check, nowMs: number, waitedMs?: number, leads?: number) => Decision | Promise<Decision>

const MS_PER_SECOND = 1_000

/** Wraps a check and reports how long it took. It does not use the clock of the limits, which stands still in tests. */
export function timedCheck(check: CheckFunction, observe: (seconds: number) => void): CheckFunction {
  function observeSince(startMs: number): void {
    observe((performance.now() - startMs) / MS_PER_SECOND)
  }
  return function timed(question, nowMs, waitedMs, leads) {
    const startMs = performance.now()
    const decision = check(question, nowMs, waitedMs, leads)
    if (decision instanceof Promise) {
      return decision.then((decided) => {
        observeSince(startMs)
        return decided
      })
    }
    observeSince(startMs)
    return decision
  }
}
