/** The steps of a decision that wait for an answer. */
import { unremembered } from '../ground/remember.js'
import { patientTimeout } from '../ground/time/cooperative-yield.js'
import { type Ceiling, isRefusing } from './ceiling.js'
import type { CheckedRequest } from './checked-request.js'

export interface LateDependencies {
  /** The time for which a request waits for the store and for what is in force, in all. */
  readonly storeTimeoutMs: number
  /** The limit that requests count against besides; a denial counts against none. */
  readonly ceiling: Ceiling | undefined
}

export type Decided = CheckedRequest | Promise<CheckedRequest>

/** Goes on with a request when the answer that it waits for is there. */
type Proceed<Dependencies, Answer> = (dependencies: Dependencies, checked: CheckedRequest, answer: Answer) => Decided

/** Goes on with an answer: nothing is remembered of what a request makes up that its ceiling refuses. */
export function underCeiling<Dependencies extends LateDependencies, Answer>(
  dependencies: Dependencies,
  checked: CheckedRequest,
  answer: Answer,
  proceed: Proceed<Dependencies, Answer>,
): Decided {
  const { ceiling } = dependencies
  const isBeyond = ceiling !== undefined && isRefusing(ceiling, checked)
  return isBeyond ? unremembered(proceed, dependencies, checked, answer) : proceed(dependencies, checked, answer)
}

/**
 * Goes on with a late answer. A function of its own: its closure would cost an allocation also where nothing is late.
 *
 * @param isStored whether the store or the database answers: a request waits for all of that no longer than for one
 */
export function later<Dependencies extends LateDependencies, Answer>(
  dependencies: Dependencies,
  checked: CheckedRequest,
  late: Promise<Answer>,
  proceed: Proceed<Dependencies, Answer>,
  isStored = false,
): Promise<CheckedRequest> {
  const startMs = performance.now()
  return late.then((answer) => {
    if (isStored) checked.waitedMs += performance.now() - startMs
    return underCeiling(dependencies, checked, answer, proceed)
  })
}

/** Returns an answer, or the other one when the time of the request is over. */
export function inTimeLeft<Answer>(
  { storeTimeoutMs }: LateDependencies,
  { waitedMs }: CheckedRequest,
  late: Promise<Answer>,
  otherwise: Answer,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const timer = patientTimeout(() => resolve(otherwise), Math.max(2, storeTimeoutMs - waitedMs))
    late.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}
