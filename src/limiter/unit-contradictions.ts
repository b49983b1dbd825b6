import type { FieldErrors } from '../ground/errors.js'
import { REQUESTS } from '../ground/unit.js'
import type { Algorithm } from './algorithm.js'
import { highestCost, type Rate } from './rate.js'

/** The valid fields of a limit that depend on its unit; undefined where a field is wrong or absent. */
interface UnitFields {
  readonly rate: Rate | undefined
  readonly algorithm: Algorithm | undefined
  /** The statuses that count; null where every request counts. */
  readonly counts: object | null | undefined
  readonly cost: number | HostFunction | undefined
  readonly unit: string | undefined
  readonly reserve: number | HostFunction | undefined
}

/** A function of the request, which answers for each what the limit cannot know before. */
type HostFunction = (...given: never) => unknown

/** What a request turns out to have used is charged: its response and its end say nothing of that. */
export function contradictionsInUnit({ rate, algorithm, counts, cost, unit, reserve }: UnitFields): FieldErrors {
  if (unit === undefined) return {}
  if (unit === REQUESTS) {
    if (reserve === undefined || reserve === 0) return {}
    return {
      reserve: `is ${named(reserve)}, but requests are not charged later: give a cost, or another unit than requests`,
    }
  }
  const errors: Record<string, string> = {}
  if (algorithm === 'concurrency') {
    errors.algorithm = `counts requests in progress, not ${unit}: give another algorithm, or the unit requests`
  }
  if (counts) errors.counts = `counts responses, not ${unit}: give requests, or the unit requests`
  if (cost !== undefined && cost !== 1) {
    errors.cost = `is ${named(cost)}, but a limit of ${unit} takes the reserve of a request: give a reserve, and the cost 1`
  }
  const most = rate === undefined ? Number.POSITIVE_INFINITY : highestCost(rate)
  if (typeof reserve === 'number' && reserve > most) {
    errors.reserve = `is ${reserve}, more than the rate ever allows: give at most ${most}, or a rate with a higher count`
  }
  return errors
}

function named(value: number | HostFunction): string {
  return typeof value === 'number' ? String(value) : 'a function'
}
