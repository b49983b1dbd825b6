/** The script's input for each algorithm, and the decisions from the counter that was stored before. */
import type { Algorithm, Checked, Decision, Policy } from '../limiter/algorithm.js'
import { type BucketCounter, checkBucket } from '../limiter/bucket.js'
import { checkFixedWindow, type FixedWindowCounter } from '../limiter/fixed-window.js'
import { checkSlidingWindow, type SlidingWindowCounter } from '../limiter/sliding-window.js'
import { replayChecks, sameLimitAndCost, samePeriod, toAdmission } from './admission.js'
import { type CheckGroup, type Joins, totalCost } from './groups.js'
import type { ScriptCall } from './redis-script.js'

export interface RedisCounter {
  /** The algorithm's letter in keys and in calls of the script. */
  readonly letter: string
  readonly joins: Joins
  call(key: string, group: CheckGroup): ScriptCall
  /** @param stored the script's answer */
  answer(stored: unknown, group: CheckGroup, nowMs: number): readonly Decision[]
}

interface RedisDefinition<Counter> extends Pick<RedisCounter, 'letter' | 'joins'> {
  readonly check: (counter: Counter | undefined, policy: Policy, cost: number, nowMs: number) => Checked<Counter>
  readonly read: (numbers: readonly number[]) => Counter
  readonly asked: (group: CheckGroup) => { readonly cost: number; readonly asked: number }
}

function defineRedisCounter<Counter>({
  letter,
  joins,
  check,
  read,
  asked: askedFor,
}: RedisDefinition<Counter>): RedisCounter {
  return {
    letter,
    joins,
    call(key, group) {
      const { periodMs, limit } = group.first.policy
      const { cost, asked } = askedFor(group)
      return { key, asks: `${letter} ${periodMs} ${limit} ${cost} ${asked}` }
    },
    answer(stored, group, nowMs) {
      const counter = typeof stored === 'string' ? read(stored.split(' ').map(Number)) : undefined
      return replayChecks(check, counter, group, nowMs)
    },
  }
}

function readFixedWindow([periodMs = 0, startMs = 0, count = 0]: readonly number[]): FixedWindowCounter {
  return { startMs, endMs: startMs + periodMs, count }
}

function readSlidingWindow(numbers: readonly number[]): SlidingWindowCounter {
  const [periodMs = 0, cellStartMs = 0, checkedMs = 0, previous = 0, current = 0] = numbers
  return { periodMs, cellStartMs, checkedMs, previous, current }
}

function readBucket([periodMs = 0, checkedMs = 0, drainLimit = 0, used = 0, fraction = 0]: readonly number[]) {
  return { periodMs, checkedMs, drainLimit, used, fraction } satisfies BucketCounter
}

function bucketCounter(letter: string): RedisCounter {
  return defineRedisCounter({
    letter,
    joins: sameLimitAndCost,
    check: checkBucket,
    read: readBucket,
    asked: toAdmission,
  })
}

export const REDIS_COUNTERS: Readonly<Record<Algorithm, RedisCounter>> = {
  fixed_window: defineRedisCounter({
    letter: 'f',
    joins: samePeriod,
    check: checkFixedWindow,
    read: readFixedWindow,
    // Refused checks count too, so that only the sum of their costs matters.
    asked: (group) => ({ cost: totalCost(group), asked: 1 }),
  }),
  sliding_window: defineRedisCounter({
    letter: 's',
    joins: sameLimitAndCost,
    check: checkSlidingWindow,
    read: readSlidingWindow,
    asked: toAdmission,
  }),
  token_bucket: bucketCounter('t'),
  leaky_bucket: bucketCounter('l'),
}
