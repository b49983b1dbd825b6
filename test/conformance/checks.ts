import assert from 'node:assert/strict'
import type { Check, Decision, PlainPolicy, Policy } from '../../src/limiter/algorithm.js'
import type { Store } from '../../src/limiter/stores/store.js'

/** Returns a policy of an algorithm; its period is a minute by default. */
export type PolicyFunction = (limit: number, periodMs?: number) => PlainPolicy

/** A moment 15 s into a minute. */
export const NOW_MS = 1_705_161_615_000
export const MAX_LIMIT = 2_147_483_647

let keys = 0
export function freshKey(): string {
  return `conformance:${process.pid}:${Date.now()}:${keys++}`
}

export async function checkAll(store: Store, nowMs: number, ...checks: Check[]): Promise<Decision[]> {
  const decisions = await store.check(checks, nowMs)
  assert.equal(decisions.length, checks.length, 'one decision per check')
  return [...decisions]
}

export async function checkOne(store: Store, nowMs: number, key: string, policy: Policy, cost = 1): Promise<Decision> {
  const [decision] = await checkAll(store, nowMs, { key, policy, cost })
  assert.ok(decision !== undefined)
  return decision
}

export async function repeat<Answer>(count: number, work: () => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = []
  for (let done = 0; done < count; done++) answers.push(await work())
  return answers
}

/** Creates Lehmer's generator, which is good enough for traces, and repeatable. */
export function seededRandom(seed: number): () => number {
  let state = (seed % 2_147_483_646) + 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return (state - 1) / 2_147_483_646
  }
}
