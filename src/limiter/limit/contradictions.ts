/** The fields of a limit that are valid each, and contradict each other. */
import { InvalidSettingError } from '../../ground/errors.js'
import { shown } from '../../ground/setting.js'
import { REQUESTS } from '../../ground/unit.js'
import type { Algorithm } from '../algorithm.js'
import { findRateProblem, highestCost, type Rate } from '../rate.js'
import type { CountedStatuses } from './counted-statuses.js'

const COUNTS_AND_CONCURRENCY =
  'The algorithm concurrency counts requests while they are in progress: give requests, or another algorithm'
const NOTICES_AND_CONCURRENCY =
  'The algorithm concurrency counts requests in progress, which have no window: leave it empty, or give another algorithm'

/** A function of the request, which answers for each what the limit cannot know before. */
type HostFunction = (...given: never) => unknown

/** The valid fields that depend on each other; undefined where a field is wrong or absent. */
export interface RelatedFields {
  readonly rate?: Rate | HostFunction | undefined
  readonly algorithm?: Algorithm | undefined
  /** The statuses that count; null where every request counts. */
  readonly counts?: CountedStatuses | null | undefined
  readonly cost?: number | HostFunction | undefined
  readonly unit?: string | undefined
  readonly reserve?: number | HostFunction | undefined
  /** Percentages; null for none. */
  readonly noticeAt?: readonly number[] | null | undefined
}

/** Returns the contradictions by the fields' names. Each goes on behind the name, or is a sentence of its own. */
export function contradictionsIn(fields: RelatedFields): Record<string, string> {
  const { algorithm, counts, cost, unit, reserve, noticeAt } = fields
  const rate = typeof fields.rate === 'object' ? fields.rate : undefined
  const problems: Record<string, string> = {}
  const most = rate === undefined ? Number.POSITIVE_INFINITY : highestCost(rate)
  const rateProblem = rate && algorithm && findRateProblem(algorithm, rate)
  if (rateProblem !== undefined) problems.rate = rateProblem
  if (algorithm === 'concurrency') {
    // By the time of a response its request is no longer in progress.
    if (counts) problems.counts = COUNTS_AND_CONCURRENCY
    if (noticeAt) problems.noticeAt = NOTICES_AND_CONCURRENCY
  }
  const excess = findExcess(cost, most)
  if (excess !== undefined) problems.cost = excess
  if (unit === undefined) return problems
  if (unit === REQUESTS) {
    if (reserve) {
      problems.reserve = `is ${named(reserve)}, but requests are not charged later: give a cost, or another unit than requests`
    }
    return problems
  }
  // What a request turns out to have used is charged: its response and its end say nothing of that.
  if (algorithm === 'concurrency') {
    problems.algorithm = `counts requests in progress, not ${unit}: give another algorithm, or the unit requests`
  }
  if (counts) problems.counts ??= `counts responses, not ${unit}: give requests, or the unit requests`
  if (cost !== undefined && cost !== 1) {
    problems.cost = `is ${named(cost)}, but a limit of ${unit} takes the reserve of a request: give a reserve, and the cost 1`
  }
  const excessiveReserve = findExcess(reserve, most)
  if (excessiveReserve !== undefined) problems.reserve = excessiveReserve
  return problems
}

function findExcess(taken: number | HostFunction | undefined, most: number): string | undefined {
  if (typeof taken !== 'number' || taken <= most) return undefined
  return `is ${taken}, more than the rate ever allows: give at most ${most}, or a rate with a higher count`
}

/**
 * @param given the settings as they were given, for messages
 * @param called returns a setting's name where it was given
 * @throws InvalidSettingError for the first contradiction
 */
export function refuseContradictions(fields: RelatedFields, given: object, called: (name: string) => string): void {
  for (const [name, problem] of Object.entries(contradictionsIn(fields))) {
    const complaint = /^[A-Z]/.test(problem) ? `is ${shown(Reflect.get(given, name))}: ${problem}` : problem
    throw new InvalidSettingError(`Setting "${called(name)}" ${complaint}`)
  }
}

function named(value: number | HostFunction): string {
  return typeof value === 'number' ? String(value) : 'a function'
}
