/** The errors of the API, as RFC 9457 has them. */
import { STATUS_CODES } from 'node:http'
import createError, { type FastifyErrorConstructor } from '@fastify/error'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import {
  errorCode,
  errorMessage,
  type FieldErrors,
  InvalidSettingError,
  RevertError,
  RuleDocumentError,
  RuleValidationError,
} from '../../ground/errors.js'
import type { OutageLog } from '../../ground/outage-log.js'
import { DatabaseUnavailableError, logFailure } from '../shell/staff-errors.js'

/** The part of a request in which a field is wrong. */
export type InputPart = 'path' | 'query' | 'header' | 'body'

export interface WrongField {
  readonly in: InputPart
  /** The name of the field, such as `rate`, or `rules[3].rate`; empty for all of the part. */
  readonly field: string
  readonly detail: string
}

const InputError: FastifyErrorConstructor<{ code: string }, [message: string]> = createError(
  'FST_RATE_LIMIT_INVALID_INPUT',
  '%s',
  400,
)

/** A request with wrong fields. Nothing was written. */
export class InvalidInputError extends InputError {
  readonly fields: readonly WrongField[]

  constructor(fields: readonly WrongField[]) {
    super(listed(fields))
    this.fields = fields
  }
}

export const InvalidJsonError = createError('FST_ERR_CTP_INVALID_JSON_BODY', 'The body is not valid JSON.', 400)
export const NotFoundError = createError('FST_RATE_LIMIT_NOT_FOUND', '%s', 404)
export const MethodError = createError('FST_RATE_LIMIT_METHOD', '%s', 405)
export const ConflictError = createError('FST_RATE_LIMIT_CONFLICT', '%s', 409)
export const UnauthorizedError = createError('FST_RATE_LIMIT_UNAUTHORIZED', '%s', 401)
export const TooManyExportsError = createError(
  'FST_RATE_LIMIT_TOO_MANY_EXPORTS',
  'You have four unfinished exports: read them to the end, then repeat the request.',
  429,
)
export const ChangedError = createError(
  'FST_RATE_LIMIT_CHANGED',
  'The entry was changed since you read it, and nothing was written: read it again, and repeat the change with its new ETag.',
  412,
)

/** Remedies where Fastify's own message has none. */
const REMEDIES: Readonly<Record<string, string>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'The body is not JSON: send JSON with Content-Type: application/json.',
  FST_ERR_CTP_EMPTY_JSON_BODY: 'The body is empty: send JSON, or no Content-Type.',
  FST_ERR_CTP_INVALID_JSON_BODY: 'The body is not valid JSON.',
  FST_ERR_CTP_BODY_TOO_LARGE: 'The body is too long: send at most 256 KiB, or 16 MiB to import.',
}

/** The number of wrong fields after which no more are looked for. */
export const MAX_FIELDS = 100
const SHOWN_FIELDS = 3

/**
 * Answers with a problem document: never with a stack trace, and for a failure of the server without its reason.
 *
 * @param log receives failures of the database, which strangers can cause as often as they like
 */
export async function answerWithProblem(
  log: OutageLog,
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const status = statusOf(error)
  if (status >= 500) logFailure(error, request, log, 'The API of the rate limiter failed')
  reply.code(status).type('application/problem+json; charset=utf-8')
  return JSON.stringify(toProblem(error, status))
}

/** Returns the problem document of an error. */
export function toProblem(error: FastifyError, status = statusOf(error)): object {
  const fields = wrongFields(error)
  return {
    type: 'about:blank',
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: detailOf(error, status),
    code: errorCode(error) ?? 'FST_RATE_LIMIT_FAILED',
    ...(fields.length > 0 && { errors: fields }),
  }
}

/** The complaint of a function about one of its options, which has the name of a field of the body. */
const OPTION = /^Option "(\w+)" (is .*)$/s

/** Runs a function of the plugin, and turns its complaint about an option into one about a field, else about the body. */
export async function asInput<T>(work: () => Promise<T>, part: InputPart = 'body', field = ''): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw asInputError(error, part, field)
  }
}

/** Returns a complaint of the plugin's about an option as one about a field; any other error as it is. */
export function asInputError(error: unknown, part: InputPart = 'body', field = ''): unknown {
  if (error instanceof RuleValidationError && field !== '') {
    const errors = Object.entries(error.errors).map(([name, detail]) => [`${field}.${name}`, detail])
    return new InvalidInputError(toWrongFields(part, Object.fromEntries(errors)))
  }
  if (!(error instanceof InvalidSettingError)) return error
  const [, option = field, detail = error.message] = part === 'body' ? (OPTION.exec(error.message) ?? []) : []
  return new InvalidInputError(toWrongFields(part, { [option]: detail }))
}

function toWrongFields(part: InputPart, errors: FieldErrors): WrongField[] {
  return Object.entries(errors).map(([field, detail]) => ({ in: part, field, detail }))
}

function statusOf({ statusCode = 500 }: FastifyError): number {
  return statusCode >= 400 && statusCode < 600 ? statusCode : 500
}

function wrongFields(error: unknown): readonly WrongField[] {
  if (error instanceof InvalidInputError) return error.fields
  if (error instanceof RuleValidationError || error instanceof RuleDocumentError) {
    return toWrongFields('body', error.errors)
  }
  return []
}

function detailOf(error: FastifyError, status: number): string {
  if (error instanceof DatabaseUnavailableError) return error.message
  if (status >= 500) return "The request could not be answered. The reason is in the server's log."
  const wrong = wrongFields(error)
  if (wrong.length > 0) return listed(wrong)
  if (error instanceof RevertError) return `${error.message}.`
  if (error instanceof SyntaxError) return `The body is not valid JSON: ${errorMessage(error)}.`
  return REMEDIES[error.code] ?? error.message
}

function listed(fields: readonly WrongField[]): string {
  const shown = fields
    .slice(0, SHOWN_FIELDS)
    .map(({ in: part, field, detail }) => `${field === '' ? part : field} ${detail}`)
  const others = fields.length - shown.length
  const least = fields.length >= MAX_FIELDS ? 'at least ' : ''
  return `${shown.join('; ')}${others > 0 ? `; and ${least}${others} more` : ''}.`
}
