/** The interface that the wrappers of a store share. No wrapper knows of another one. */
import type { Check, Decision, Settlement } from './algorithm.js'

/** The decisions on a batch, in its order; undefined for a counter that cannot be advanced where others can. */
export type Answers = readonly (Decision | undefined)[]

/** The rejection of a batch that a store has decided in part: the counters of the other checks cannot be advanced. */
export class PartlyDecidedError extends Error {
  override readonly name = 'PartlyDecidedError'
  readonly decisions: Answers

  constructor(decisions: Answers, cause: unknown) {
    super('some counters cannot be advanced', { cause })
    this.decisions = decisions
  }
}

const decidedBefore = new WeakMap<object, Answers>()

/** Notes what a store has decided of a batch before it failed. Returns the error. */
export function failedAfter(error: unknown, decisions: Answers): unknown {
  if (typeof error === 'object' && error !== null) decidedBefore.set(error, decisions)
  return error
}

/** Returns what a store had decided of a batch that failed. */
export function decisionsBefore(error: unknown): Answers {
  return (typeof error === 'object' && error !== null ? decidedBefore.get(error) : undefined) ?? []
}

/** The rejection of a settlement that a store has done in part: the counters of the others cannot be changed. */
export class PartlySettledError extends Error {
  override readonly name = 'PartlySettledError'

  constructor(left: readonly Settlement[], cause: unknown) {
    super('some counters cannot be settled', { cause })
    failedLeaving(this, left)
  }
}

const leftBy = new WeakMap<object, readonly Settlement[]>()

/** Notes what a store has not given back when it failed. Returns the error. */
export function failedLeaving(error: unknown, left: readonly Settlement[]): unknown {
  if (typeof error === 'object' && error !== null) leftBy.set(error, left)
  return error
}

/** Returns what a store that failed has not given back; undefined where it says nothing, and has given back nothing. */
export function settlementsLeft(error: unknown): readonly Settlement[] | undefined {
  return typeof error === 'object' && error !== null ? leftBy.get(error) : undefined
}

/** The part of a store that a limiter uses; `stores/store.ts` has its contract. */
export interface BatchStore {
  readonly concurrency: number
  readonly isOrdered?: boolean
  check(checks: readonly Check[], nowMs: number): Answers | Promise<Answers>
  settle?(settlements: readonly Settlement[], nowMs: number): void | Promise<void>
  reset(keys: readonly string[]): void | Promise<void>
  resetAll?(prefixes: readonly string[]): void | Promise<void>
  resets?(): Promise<number | undefined>
  partOf?(key: string): string
}

/** A wrapper around a store, for one concern. */
export interface WrappedStore extends BatchStore {
  /** Decides a check where that takes no call of the store; otherwise returns undefined. */
  decideLocally(check: Check, nowMs: number): Decision | undefined
  settle(settlements: readonly Settlement[], nowMs: number): Promise<void>
}

/** A store whose checks and settlements never fail. */
export interface SafeStore extends WrappedStore {
  /** Decides a check that the store has not decided, or not in time. */
  decideWithout(check: Check, nowMs: number): Decision
}
