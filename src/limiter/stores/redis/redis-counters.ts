/** The script's input for each algorithm, and the decisions from the counter that was stored before. */

import type { Algorithm, Decision, NamedWindow, RateAlgorithm, Settlement } from '../../algorithm.js'
import { checkBucket } from '../../bucket.js'
import { decideConcurrencyInOrder } from '../../concurrency.js'
import { checkFixedWindow } from '../../fixed-window.js'
import { windowStartMs } from '../../period.js'
import { settledNumbers } from '../../settlement.js'
import { checkSlidingWindow } from '../../sliding-window.js'
import {
  type CheckFunction,
  readBucket,
  readFixedWindow,
  readSlidingWindow,
  WINDOW_CHECKS,
  type WindowNumbers,
} from '../../windows.js'
import { type CheckGroup, type Joins, joinsRate, replayChecks, sameLimitAndCost, toAdmission } from '../groups.js'
import { readNumbers, splitNumbers } from '../numbers-text.js'

/** The script's input for one counter. */
export interface ScriptCall {
  readonly key: string
  /** The task of the script; `redis-lua.ts` has its grammar. */
  readonly task: string
}

export interface RedisCounter {
  /** The algorithm's letter in keys and in calls of the script. */
  readonly letter: string
  readonly joins: Joins
  call(key: string, group: CheckGroup, nowMs: number): ScriptCall
  /** @param stored the script's answer */
  answer(stored: unknown, group: CheckGroup, nowMs: number): readonly Decision[]
  settle(key: string, settlement: Settlement): ScriptCall
}

interface RedisDefinition<Counter> extends Pick<RedisCounter, 'letter'> {
  readonly algorithm: RateAlgorithm
  readonly check: CheckFunction<Counter>
  readonly read: (numbers: WindowNumbers) => Counter
  /** The number of numbers that a window has. */
  readonly size: number
}

function defineRedisCounter<Counter>({ algorithm, letter, check, read, size }: RedisDefinition<Counter>): RedisCounter {
  // A batch has counters with mostly the same windows.
  let [listed, listedMs, list]: [unknown, number, string] = [undefined, 0, '']
  return {
    letter,
    joins: joinsRate,
    call(key, group, nowMs) {
      const { periodMs, limit, windows } = group.first.policy
      const { cost, checkCount } = toAdmission(group)
      if (windows !== undefined) {
        if (windows !== listed || nowMs !== listedMs) list = listWindows(windows, nowMs)
        ;[listed, listedMs] = [windows, nowMs]
        return { key, task: `w${letter} ${cost} ${checkCount} ${list}` }
      }
      return { key, task: `${letter} ${periodMs} ${limit} ${cost} ${checkCount}` }
    },
    answer(stored, group, nowMs) {
      if (group.first.policy.windows !== undefined) {
        const windows = typeof stored === 'string' ? splitNumbers(readNumbers(stored), size) : []
        return replayChecks(WINDOW_CHECKS[algorithm], windows, group, nowMs)
      }
      const counter = typeof stored === 'string' ? read(readNumbers(stored)) : undefined
      return replayChecks(check, counter, group, nowMs)
    },
    settle(key, settlement) {
      return { key, task: `${letter.toUpperCase()} ${settledNumbers(settlement).join(' ')}` }
    },
  }
}

/** The counter of requests in progress. Calls name the permits; the script answers how many were taken before. */
const CONCURRENCY: RedisCounter = {
  letter: 'c',
  joins: sameLimitAndCost,
  call(key, { first: { policy, cost }, checks }) {
    // A cost above the limit takes nothing, whatever it is.
    const permits = cost === 0 || cost > policy.limit ? [] : checks.map(({ permit = 0 }) => permit)
    return { key, task: ['c', policy.periodMs, policy.limit, cost, ...permits].join(' ') }
  },
  answer: (used, { checks }) => decideConcurrencyInOrder(checks, Number(used)),
  settle: (key, { cost, permit = 0 }) => ({ key, task: `C ${cost} ${permit}` }),
}

function listWindows(windows: readonly NamedWindow[], nowMs: number): string {
  const texts = windows.map(({ limit, periodMs }) => {
    return `${periodMs} ${windowStartMs(periodMs, nowMs)} ${limit}`
  })
  return texts.join(' ')
}

function bucketCounter(algorithm: RateAlgorithm, letter: string): RedisCounter {
  return defineRedisCounter({ algorithm, letter, check: checkBucket, read: readBucket, size: 6 })
}

export const REDIS_COUNTERS: Readonly<Record<Algorithm, RedisCounter>> = {
  fixed_window: defineRedisCounter({
    algorithm: 'fixed_window',
    letter: 'f',
    check: checkFixedWindow,
    read: readFixedWindow,
    size: 3,
  }),
  sliding_window: defineRedisCounter({
    algorithm: 'sliding_window',
    letter: 's',
    check: checkSlidingWindow,
    read: readSlidingWindow,
    size: 5,
  }),
  token_bucket: bucketCounter('token_bucket', 't'),
  leaky_bucket: bucketCounter('leaky_bucket', 'l'),
  concurrency: CONCURRENCY,
}
