import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { errorMessage } from '../ground/errors.js'

/** A function of the request, which may be async. */
export type RequestFunction<Answer> = (request: FastifyRequest) => Answer | PromiseLike<Answer>

/** Wraps a function of the host's that may fail: it then returns undefined, and logs the first error. */
export function tolerate<Argument, Answer>(
  hostFunction: (argument: Argument) => Answer | PromiseLike<Answer>,
  setting: string,
  log: FastifyBaseLogger,
) {
  let reported = false
  function failed(error: unknown): undefined {
    if (!reported) log.error({ err: error }, `Rate limit setting "${setting}" failed: ${errorMessage(error)}`)
    reported = true
  }
  return function tolerant(argument: Argument): Answer | undefined | Promise<Answer | undefined> {
    try {
      const answer = hostFunction(argument)
      return isThenable(answer) ? Promise.resolve(answer).catch(failed) : answer
    } catch (error) {
      return failed(error)
    }
  }
}

// Query builders (Prisma's, Knex's) return values that can be awaited and are no Promise.
export function isThenable<Answer>(answer: Answer | PromiseLike<Answer>): answer is PromiseLike<Answer> {
  return typeof answer === 'object' && answer !== null && 'then' in answer
}

/** Calls `next` with a value at once, or with a promise's value when it is fulfilled. */
export function after<Value, Result>(
  value: Value | Promise<Value>,
  next: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(next) : next(value)
}
