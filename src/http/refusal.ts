import { STATUS_CODES } from 'node:http'
import createError from '@fastify/error'
import type { FastifyError, FastifyReply, FastifyRequest, HookHandlerDoneFunction, RouteOptions } from 'fastify'
import { REQUESTS } from '../ground/unit.js'
import { retryAfterSeconds } from '../limiter/algorithm.js'
import type { CheckedRequest } from './checked-request.js'
import { type Refusal, refuses, TOO_LONG_LIMIT } from './checked-request.js'
import { forbidStoring } from './discarded-headers.js'
import { windowNames } from './policy-names.js'
import type { RequestDecision } from './request-decision.js'
import { forgetResponse } from './request-end.js'
import { isUpgrade } from './response-events.js'

/** RFC 9457. */
const PROBLEM_TYPE = 'application/problem+json'
/** The type as Fastify sends it. */
const SENT_PROBLEM_TYPE = `${PROBLEM_TYPE}; charset=utf-8`
/** The type of JSON as Fastify sends it. */
const JSON_TYPE = 'application/json; charset=utf-8'
const REFUSED_QUALITY = /;\s*q=0(?:\.0*)?\s*(?:;|$)/i
/** The problem types that the draft of the RateLimit fields registers for an exhausted limit, and for a banned client. */
const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'
const ABNORMAL_USAGE = 'https://iana.org/assignments/http-problem-types#abnormal-usage-detected'

/** The error of a refused request. */
export interface RefusalError extends FastifyError {
  /**
   * The decision about the request. It is no enumerable property, so that loggers and reporters of errors, which copy
   * those, write no client unless the host does.
   */
  readonly decision: RequestDecision
}

type RefusalErrorConstructor = new (message: string, decision: RequestDecision) => RefusalError

/** Creates an error class without stack traces, so that a flood of refusals is cheap. */
function createRefusalError(code: string, statusCode: number): RefusalErrorConstructor {
  return class extends createError<[message: string]>(code, '%s', statusCode, Error, false) {
    readonly #decision: RequestDecision

    constructor(message: string, decision: RequestDecision) {
      super(message)
      this.#decision = decision
    }

    get decision(): RequestDecision {
      return this.#decision
    }
  }
}

/** The thrown 429 of a request over its limit; a rule may have another status and another message. */
export class RateLimitExceededError extends createRefusalError('FST_RATE_LIMIT_EXCEEDED', 429) {
  constructor(message: string, decision: RequestDecision, statusCode = 429) {
    super(message, decision)
    this.statusCode = statusCode
  }
}

/** The thrown 403 of a client that the deny list or an override refuses. */
export class AccessDeniedError extends createRefusalError('FST_RATE_LIMIT_DENIED', 403) {
  constructor(decision: RequestDecision) {
    super('Access denied', decision)
  }
}

/** The thrown 414 of a request that is too long to be matched against the rules. */
export class PathTooLongError extends createRefusalError('FST_RATE_LIMIT_PATH_TOO_LONG', 414) {
  constructor(decision: RequestDecision) {
    super('The path, the query or a header is too long', decision)
  }
}

/** The thrown 503 of `onStoreError: 'deny'`. */
export class StoreUnavailableError extends createRefusalError('FST_RATE_LIMIT_STORE_UNAVAILABLE', 503) {
  constructor(decision: RequestDecision) {
    super('Rate limit store unavailable, try again later', decision)
  }
}

/**
 * Ends a refused request: 429, or the status of its rule, with `Retry-After` where waiting helps; 403 for a denial; 503
 * where no store answered; or 414 where the request is too long for a decision.
 *
 * The error is thrown, so that the host's error handler may reshape it. Where the host has none, a client that accepts
 * `application/problem+json` gets that form, and a status without a name is answered with that of its class.
 */
export function refuse(checked: CheckedRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void {
  const { request } = checked
  forgetResponse(request)
  forbidStoring(reply)
  if (isUpgrade(request)) closeWhenSent(request, reply)
  const error = refusal(reply, checked)
  const { statusCode = 500 } = error
  const isProblem = acceptsProblem(request.headers.accept)
  // Fastify has no text for the error of a status without a name.
  if ((!isProblem && statusCode in STATUS_CODES) || hasErrorHandler(request)) done(error)
  else if (isProblem) send(reply, statusCode, PROBLEM_TYPE, problem(error, checked))
  else send(reply, statusCode, JSON_TYPE, plainBody(error))
}

/**
 * Returns the status and the body of a refusal, as `refuse` sends them where the host has no error handler; sets the
 * headers.
 */
export function describeRefusal(checked: CheckedRequest, reply: FastifyReply): { status: number; body: string } {
  forbidStoring(reply)
  const error = refusal(reply, checked)
  const isProblem = acceptsProblem(checked.request.headers.accept)
  reply.header('content-type', isProblem ? SENT_PROBLEM_TYPE : JSON_TYPE)
  const body = isProblem ? problem(error, checked) : plainBody(error)
  return { status: error.statusCode ?? 500, body: JSON.stringify(body) }
}

function send(reply: FastifyReply, statusCode: number, type: string, body: object): void {
  void reply.code(statusCode).type(type).send(JSON.stringify(body))
}

function plainBody({ statusCode = 500, code, message }: ReturnType<typeof refusal>): object {
  return { statusCode, code, error: statusText(statusCode), message }
}

/** Returns the name of a status, else that of its class in RFC 9110. */
function statusText(statusCode: number): string {
  return STATUS_CODES[statusCode] ?? (statusCode < 500 ? 'Client Error' : 'Server Error')
}

/**
 * Closes the connection of a refused upgrade, which the HTTP server no longer owns. `@fastify/websocket` ends it only
 * if its own hook ran before, and an open connection keeps the app from closing.
 */
function closeWhenSent({ raw: { socket } }: FastifyRequest, reply: FastifyReply): void {
  reply.raw.once('finish', () => socket.destroySoon())
}

function acceptsProblem(accept = ''): boolean {
  return accept.split(',').some((range) => {
    const [type = ''] = range.split(';')
    return type.trim().toLowerCase() === PROBLEM_TYPE && !REFUSED_QUALITY.test(range)
  })
}

function refusal(reply: FastifyReply, { described: decision, limit }: CheckedRequest) {
  if (limit === TOO_LONG_LIMIT) return new PathTooLongError(decision)
  if (limit.isDenial) return new AccessDeniedError(decision)
  const seconds = retryAfterSeconds(decision)
  if (seconds !== null) reply.header('retry-after', seconds)
  if (decision.unavailable) return new StoreUnavailableError(decision)
  const { statusCode, message } = limit.refusal
  return new RateLimitExceededError(
    message === '' ? usualMessage(limit.unit, seconds) : message.replaceAll('{seconds}', String(seconds ?? 0)),
    decision,
    statusCode,
  )
}

function usualMessage(unit: string, seconds: number | null): string {
  const exceeded = unit === REQUESTS ? 'Rate limit exceeded' : `Rate limit of ${unit} exceeded`
  return seconds === null ? exceeded : `${exceeded}, retry in ${seconds} second${seconds === 1 ? '' : 's'}`
}

/** The mark in the config of a route that has an error handler of its own. */
const HANDLES_ERRORS = Symbol('fastify-smart-ratelimit: handles errors')

/** Marks a route that has an error handler of its own. */
export function noteErrorHandler(route: RouteOptions): void {
  if (route.errorHandler !== undefined) route.config = Object.assign({}, route.config, { [HANDLES_ERRORS]: true })
}

/** Returns whether the host handles a request's errors. Fastify's own handler is recognised by its name. */
function hasErrorHandler({ server, routeOptions: { config } }: FastifyRequest): boolean {
  return server.errorHandler.name !== 'defaultErrorHandler' || HANDLES_ERRORS in config
}

function problem(error: ReturnType<typeof refusal>, checked: CheckedRequest): object {
  const { statusCode: status = 500, code, message: detail } = error
  const title = statusText(status)
  if (!(error instanceof RateLimitExceededError)) {
    return { type: checked.limit.isBan ? ABNORMAL_USAGE : 'about:blank', title, status, detail, code }
  }
  return { type: QUOTA_EXCEEDED, title, status, detail, code, 'violated-policies': violatedPolicies(checked) }
}

/** Returns the names of all windows that refuse, as the draft's fields have them: those of the limit that decides first. */
function violatedPolicies(checked: CheckedRequest): string[] {
  return [...new Set([checked, ...checked.met.filter(refuses)].flatMap(refusingWindows))]
}

function refusingWindows({
  limit: { policy, policyName },
  decision: { windows = [] },
}: Pick<Refusal, 'limit' | 'decision'>): string[] {
  const names = windowNames(policyName, policy.windows)
  const refusing = windows.flatMap(({ retryAfterMs }, index) => (retryAfterMs === 0 ? [] : (names[index] ?? [])))
  return refusing.length === 0 ? [policyName] : refusing
}
