import createError, { type FastifyErrorConstructor } from '@fastify/error'

// The types are written out, since what TypeScript would infer names a namespace that bundlers' resolution lacks.
type MessageErrorConstructor = FastifyErrorConstructor<
  { code: string },
  [message: string, options?: { cause: unknown }]
>

/** A setting that is wrong, unknown or half-configured. The message names the setting, its value and the remedy. */
export const InvalidSettingError: MessageErrorConstructor = createError(
  'FST_RATE_LIMIT_INVALID_SETTING',
  '%s',
  500,
  TypeError,
)

/** A rate string that does not follow the grammar of `parseRate`. */
export const InvalidRateError: MessageErrorConstructor = createError(
  'FST_RATE_LIMIT_INVALID_RATE',
  '%s',
  400,
  TypeError,
)

/** The thrown 429 of a refused request. It has no stack trace: a flood of refusals should be cheap. */
export const RateLimitExceededError: MessageErrorConstructor = createError(
  'FST_RATE_LIMIT_EXCEEDED',
  '%s',
  429,
  Error,
  false,
)

/** The thrown 503 of `onStoreError: 'deny'`. */
export const StoreUnavailableError: FastifyErrorConstructor<{ code: string }, []> = createError(
  'FST_RATE_LIMIT_STORE_UNAVAILABLE',
  'Rate limit store unavailable, try again later',
  503,
)

/** A table this package needs is not there: its migrations have not been applied. */
export const MissingTableError: MessageErrorConstructor = createError('FST_RATE_LIMIT_MISSING_TABLE', '%s', 503)

/** One message per wrong field, `{ rate: "…" }`. */
export type FieldErrors = Readonly<Record<string, string>>

const InvalidRuleError: MessageErrorConstructor = createError('FST_RATE_LIMIT_INVALID_RULE', '%s', 400)

/** A rule that would be wrong in the table. `errors` holds one message for every wrong field. */
export class RuleValidationError extends InvalidRuleError {
  readonly errors: FieldErrors

  constructor(errors: FieldErrors) {
    super(
      `Invalid rule: ${Object.entries(errors)
        .map(([field, message]) => `${field}: ${message}`)
        .join('; ')}`,
    )
    this.errors = errors
  }
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
