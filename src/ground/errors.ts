import createError, { type FastifyErrorConstructor } from '@fastify/error'

// Explicit types, since those that TypeScript infers name a namespace that bundlers' resolution lacks.
export type MessageErrorConstructor = FastifyErrorConstructor<
  { code: string },
  [message: string, options?: { cause: unknown }]
>

/** A setting that is invalid, unknown or incomplete. The message names the setting, its value and the remedy. */
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

/** A missing table of this package: its migrations have not been applied. */
export const MissingTableError: MessageErrorConstructor = createError('FST_RATE_LIMIT_MISSING_TABLE', '%s', 503)

/** The messages of invalid fields, one each, `{ rate: "…" }`. */
export type FieldErrors = Readonly<Record<string, string>>

const InvalidRuleError: MessageErrorConstructor = createError('FST_RATE_LIMIT_INVALID_RULE', '%s', 400)

/** The errors of one of several rows to be written. */
export interface WrongRow {
  /** The row's index among them, from 0. */
  readonly index: number
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly errors: FieldErrors
}

/** An invalid rule or override. Nothing was written. */
export class RuleValidationError extends InvalidRuleError {
  /** The messages of every invalid field, of any row. */
  readonly errors: FieldErrors
  /** The rows, of several to be written, that are invalid or would stay invalid. */
  readonly rows: readonly WrongRow[]

  constructor(errors: FieldErrors, rows: readonly WrongRow[] = [], entity: 'rule' | 'override' = 'rule') {
    const messages = [
      ...(Object.keys(errors).length > 0 ? [listFieldErrors(errors)] : []),
      ...rows.map(
        ({ index, name, errors: wrong }) => `row ${index + 1} (${JSON.stringify(name)}): ${listFieldErrors(wrong)}`,
      ),
    ]
    super(`Invalid ${entity}: ${messages.join('; ')}`)
    this.rows = rows
    // The first row with an error in a field provides its message.
    this.errors = Object.assign({}, ...rows.map((row) => row.errors).reverse(), errors)
  }
}

const InvalidDocumentError: MessageErrorConstructor = createError('FST_RATE_LIMIT_INVALID_DOCUMENT', '%s', 400)

/** The number of a document's errors that the message repeats. */
const SHOWN_ERRORS = 10

/** A document that cannot be imported. `errors` has one message per wrong field, `{ "rules[3].rate": "…" }`. */
export class RuleDocumentError extends InvalidDocumentError {
  readonly errors: FieldErrors

  constructor(errors: FieldErrors) {
    const shown = Object.entries(errors).slice(0, SHOWN_ERRORS)
    const others = Object.keys(errors).length - shown.length
    super(
      `Invalid rule document: ${listFieldErrors(Object.fromEntries(shown))}${others > 0 ? `; and ${others} more` : ''}`,
    )
    this.errors = errors
  }
}

function listFieldErrors(errors: FieldErrors): string {
  return Object.entries(errors)
    .map(([field, message]) => `${field}: ${message}`)
    .join('; ')
}

/** A change of a rule or an override that cannot be reverted, since it is missing, or was changed again. */
export const RevertError: MessageErrorConstructor = createError('FST_RATE_LIMIT_REVERT', '%s', 409)

/** Returns the code of an error that has one, as those of Node, databases and Prisma do. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/**
 * Creates the error for a package that the host has to install, and that is missing or fails to import.
 *
 * @param user the feature that needs the package
 * @param install the packages to install with `npm install`
 * @param since the oldest supported release
 */
export function unloadablePeer(
  { user, name, install = name, since }: { user: string; name: string; install?: string; since?: string },
  error: unknown,
): Error {
  const [found = ''] = errorMessage(error).split('\n')
  const isMissing = /MODULE_NOT_FOUND$/.test(errorCode(error) ?? '') && found.includes(`'${name}'`)
  const range = since === undefined ? '' : `, ${since} or later`
  const problem = isMissing
    ? `needs the package ${name}${range}: run "npm install ${install}" (${found})`
    : `cannot load the package ${name}, which is installed: ${errorLine(error)}`
  return new InvalidSettingError(`${user} ${problem}`, { cause: error })
}

/** The beginning of Prisma's messages, with the call that failed. */
const PRISMA_CALL = /^Invalid `[^`]*` invocation(?: in \S+)?: /

/** Returns an error's message in one line. Some network errors have only a code. */
export function errorLine(error: unknown): string {
  const line = (errorMessage(error) || errorCode(error) || 'unknown error').replace(/\s+/g, ' ').trim()
  return line.replace(PRISMA_CALL, '')
}

/** Returns the message of any thrown value. */
export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
