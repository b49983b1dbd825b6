import { DAY_MS } from '../ground/time/clock.js'
import type { Check, Decision, WindowState } from './algorithm.js'
import type { Answers, BatchStore } from './batch-store.js'
import { isBucket, LONGEST_DRAIN_MS } from './bucket.js'

/** The time by which a counter may outlast its periods, where another process has a clock that is ahead. */
const MAX_AHEAD_MS = DAY_MS

/** Wraps a store that is not of this package: a wrong answer is a failure, since headers and events would show it. */
export function validatedStore(store: BatchStore): BatchStore {
  return {
    concurrency: store.concurrency,
    ...(store.isOrdered === undefined ? {} : { isOrdered: store.isOrdered }),
    check(checks, nowMs) {
      const answers = store.check(checks, nowMs)
      if (answers instanceof Promise) return answers.then((decisions) => validated(decisions, checks))
      return validated(answers, checks)
    },
    reset: (keys) => store.reset(keys),
    ...(store.resetAll === undefined ? {} : { resetAll: store.resetAll.bind(store) }),
    ...(store.settle === undefined ? {} : { settle: store.settle.bind(store) }),
    ...(store.resets === undefined ? {} : { resets: async () => validatedResets(await store.resets?.()) }),
    ...(store.partOf === undefined ? {} : { partOf: store.partOf.bind(store) }),
  }
}

/** @throws RangeError naming what is wrong */
function validated(decisions: Answers, checks: readonly Check[]): Answers {
  for (const [index, check] of checks.entries()) {
    const problem = findProblem(decisions[index], check)
    if (problem !== undefined) throw new RangeError(`the store answered ${problem}`)
  }
  return decisions
}

/** @throws RangeError for what is no count, by which other processes' resets would be noticed all the time */
function validatedResets(counted: unknown): number {
  if (typeof counted === 'number' && Number.isFinite(counted)) return counted
  throw new RangeError(`the store answered resets: ${String(counted)}`)
}

function findProblem(decision: Decision | undefined, { policy, charges }: Check): string | undefined {
  if (decision === null || typeof decision !== 'object') return `${String(decision)} in place of a decision`
  const { allowed, count, windows } = decision
  const periodMs = Math.max(...(policy.windows ?? [policy]).map((window) => window.periodMs))
  // A bucket in debt takes longer.
  const drainMs = isBucket(policy) ? LONGEST_DRAIN_MS : 0
  const longestMs = 2 * periodMs + drainMs + MAX_AHEAD_MS
  if (typeof allowed !== 'boolean' || (charges && !allowed)) return `allowed: ${String(allowed)}`
  if (!isWhole(count)) return `count: ${String(count)}`
  if ((windows?.length ?? 0) !== (policy.windows?.length ?? 0)) return 'not one state for each window'
  return [decision, ...(windows ?? [])].map((state) => findStateProblem(state, longestMs)).find(Boolean)
}

function findStateProblem(
  { limit, remaining, resetMs, moreMs = resetMs, retryAfterMs, taken }: WindowState,
  longestMs: number,
): string | undefined {
  if (!isWhole(limit)) return `limit: ${String(limit)}`
  if (!isWhole(remaining)) return `remaining: ${String(remaining)}`
  // What a settlement would count from.
  if (taken !== undefined && !isWhole(taken)) return `taken: ${String(taken)}`
  if (retryAfterMs !== null && !isWithin(retryAfterMs, longestMs)) return `retryAfterMs: ${String(retryAfterMs)}`
  if (!isWithin(moreMs, longestMs)) return `moreMs: ${String(moreMs)}`
  return isWithin(resetMs, longestMs) ? undefined : `resetMs: ${String(resetMs)}`
}

function isWhole(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function isWithin(value: number, longestMs: number): boolean {
  return typeof value === 'number' && value >= 0 && value <= longestMs
}
