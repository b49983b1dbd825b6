/** The costs of requests. */
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../ground/errors.js'
import { REQUESTS } from '../ground/unit.js'
import { MAX_COST, MAX_RESERVE, validateCost, validateReserve } from '../limiter/cost.js'
import type { Limit } from './checked-request.js'
import { after, isThenable, type RequestFunction, tolerate } from './host-function.js'

/** The part of a limit that a request uses: an integer, 1 to 2147483647, or a function that returns one. */
export type Cost = number | ((request: FastifyRequest) => number)

/** How much of another unit than requests a request takes in advance, or a function that returns it. */
export type Reserve = number | RequestFunction<number>

/**
 * Returns what the check of a request takes of a limit: its own cost times that of the limit, or what a limit of another unit
 * takes in advance. A request of cost 0 takes nothing.
 */
export function costUnder(
  { cost, unit, reserve }: Pick<Limit, 'cost' | 'unit' | 'reserve'>,
  requestCost: number,
): number {
  if (unit === REQUESTS) return Math.min(requestCost * cost, MAX_COST)
  return requestCost === 0 ? 0 : reserve
}

/** A request that asks for more than any limit allows is refused, and does not pass as one whose function failed. */
function atMost(most: number, answer: unknown): unknown {
  return typeof answer === 'number' && answer > most ? most : answer
}

function validateAnswer(setting: string, answer: unknown): number {
  if (!isThenable(answer)) return validateCost(setting, atMost(MAX_COST, answer))
  // The promise may reject later, when no code awaits it.
  Promise.resolve(answer).catch(() => undefined)
  throw new InvalidSettingError(`Setting "${setting}" returns a promise: give a function that is not async`)
}

/** Creates the function that returns a request's cost. A host's function that fails is logged once, and costs 1. */
export function createCost(setting: string, cost: Cost, log: FastifyBaseLogger): (request: FastifyRequest) => number {
  if (typeof cost !== 'function') {
    const checked = validateCost(setting, cost)
    return () => checked
  }
  const guarded = tolerate((request: FastifyRequest) => validateAnswer(setting, cost(request)), setting, log)
  return function costFor(request) {
    const answered = guarded(request)
    return typeof answered === 'number' ? answered : 1
  }
}

/** Creates the function that returns what a request takes in advance. A host's function that fails is logged once, and takes 0. */
export function createReserve(setting: string, reserve: RequestFunction<number>, log: FastifyBaseLogger) {
  const validated = (answer: unknown) => validateReserve(setting, atMost(MAX_RESERVE, answer))
  const guarded = tolerate(
    (request: FastifyRequest) => {
      const answer = reserve(request)
      return isThenable(answer) ? answer.then(validated) : validated(answer)
    },
    setting,
    log,
  )
  return (request: FastifyRequest): number | Promise<number> => after(guarded(request), (reserved) => reserved ?? 0)
}
