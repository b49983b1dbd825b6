/** The script's input for each algorithm, and the decisions from the counter that was stored before. */
import type { Algorithm, Checked, Decision, NamedWindow, Policy } from '../limiter/algorithm.js'
import { checkBucket } from '../limiter/bucket.js'
import { checkFixedWindow } from '../limiter/fixed-window.js'
import { windowEndMs, windowStartMs } from '../limiter/period.js'
import { checkSlidingWindow } from '../limiter/sliding-window.js'
import {
  readBucket,
  readFixedWindow,
  readSlidingWindow,
  WINDOW_CHECKS,
  type WindowNumbers,
  type WindowsCounter,
} from '../limiter/windows.js'
import { replayChecks, sameLimitAndCost, samePeriod, toAdmission } from './admission.js'
import { type CheckGroup, type Joins, totalCost } from './groups.js'
import type { ScriptCall } from './redis-script.js'

export interface RedisCounter {
  /** The algorithm's letter in keys and in calls of the script. */
  readonly letter: string
  readonly joins: Joins
  call(key: string, group: CheckGroup, nowMs: number): ScriptCall
  /** @param stored the script's answer */
  answer(stored: unknown, group: CheckGroup, nowMs: number): readonly Decision[]
}

interface RedisDefinition<Counter> extends Pick<RedisCounter, 'letter' | 'joins'> {
  readonly algorithm: Algorithm
  readonly check: (counter: Counter | undefined, policy: Policy, cost: number, nowMs: number) => Checked<Counter>
  readonly read: (numbers: WindowNumbers) => Counter
  readonly asked: (group: CheckGroup) => { readonly cost: number; readonly asked: number }
}

function defineRedisCounter<Counter>({
  algorithm,
  letter,
  joins,
  check,
  read,
  asked: askedFor,
}: RedisDefinition<Counter>): RedisCounter {
  return {
    letter,
    joins,
    call(key, group, nowMs) {
      const { periodMs, limit, windows } = group.first.policy
      const { cost, asked } = askedFor(group)
      if (windows !== undefined) return { key, asks: `w${letter} ${cost} ${asked} ${listWindows(windows, nowMs)}` }
      return { key, asks: `${letter} ${periodMs} ${limit} ${cost} ${asked}` }
    },
    answer(stored, group, nowMs) {
      if (group.first.policy.windows !== undefined) {
        return replayChecks(WINDOW_CHECKS[algorithm], readWindows(stored), group, nowMs)
      }
      const counter = typeof stored === 'string' ? read(readNumbers(stored)) : undefined
      return replayChecks(check, counter, group, nowMs)
    },
  }
}

function listWindows(windows: readonly NamedWindow[], nowMs: number): string {
  const texts = windows.map(({ limit, periodMs }) => {
    const startMs = windowStartMs(periodMs, nowMs)
    return `${periodMs} ${startMs} ${windowEndMs(periodMs, startMs)} ${limit}`
  })
  return texts.join(' ')
}

/** Reads a counter with one window or, behind a `w`, several. */
function readWindows(stored: unknown): WindowsCounter {
  return typeof stored === 'string' ? stored.replace(/^w/, '').split('|').map(readNumbers) : []
}

function readNumbers(text: string): WindowNumbers {
  return text.split(' ').map(Number)
}

function bucketCounter(algorithm: Algorithm, letter: string): RedisCounter {
  return defineRedisCounter({
    algorithm,
    letter,
    joins: sameLimitAndCost,
    check: checkBucket,
    read: readBucket,
    asked: toAdmission,
  })
}

export const REDIS_COUNTERS: Readonly<Record<Algorithm, RedisCounter>> = {
  fixed_window: defineRedisCounter({
    algorithm: 'fixed_window',
    letter: 'f',
    joins: samePeriod,
    check: checkFixedWindow,
    read: readFixedWindow,
    // Refused checks count too, so that only the sum of their costs matters.
    asked: (group) => ({ cost: totalCost(group), asked: 1 }),
  }),
  sliding_window: defineRedisCounter({
    algorithm: 'sliding_window',
    letter: 's',
    joins: sameLimitAndCost,
    check: checkSlidingWindow,
    read: readSlidingWindow,
    asked: toAdmission,
  }),
  token_bucket: bucketCounter('token_bucket', 't'),
  leaky_bucket: bucketCounter('leaky_bucket', 'l'),
}
