import createError, { type FastifyErrorConstructor } from '@fastify/error'

// The types are written out, since what TypeScript would infer names a namespace that bundlers' resolution lacks.
export type MessageErrorConstructor = FastifyErrorConstructor<
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

/** A table this package needs is not there: its migrations have not been applied. */
export const MissingTableError: MessageErrorConstructor = createError('FST_RATE_LIMIT_MISSING_TABLE', '%s', 503)

/** One message per wrong field, `{ rate: "…" }`. */
export type FieldErrors = Readonly<Record<string, string>>

const InvalidRuleError: MessageErrorConstructor = createError('FST_RATE_LIMIT_INVALID_RULE', '%s', 400)

/** What is wrong with one of several rows that were to be written. */
export interface WrongRow {
  /** Its place among them, from 0. */
  readonly index: number
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly errors: FieldErrors
}

/** A rule or an override that would be wrong in the table. Nothing was written. */
export class RuleValidationError extends InvalidRuleError {
  /** One message for every wrong field, of whichever row. */
  readonly errors: FieldErrors
  /** Where several rows were to be written: those that are wrong, or would stay so. */
  readonly rows: readonly WrongRow[]

  constructor(errors: FieldErrors, rows: readonly WrongRow[] = [], entity: 'rule' | 'override' = 'rule') {
    const parts = [
      ...(Object.keys(errors).length > 0 ? [listed(errors)] : []),
      ...rows.map(({ index, name, errors: wrong }) => `row ${index + 1} (${JSON.stringify(name)}): ${listed(wrong)}`),
    ]
    super(`Invalid ${entity}: ${parts.join('; ')}`)
    this.rows = rows
    // The first row that has an error in a field speaks for it.
    this.errors = Object.assign({}, ...rows.map((row) => row.errors).reverse(), errors)
  }
}

const InvalidDocumentError: MessageErrorConstructor = createError('FST_RATE_LIMIT_INVALID_DOCUMENT', '%s', 400)

/** How many of its complaints the message of a document repeats. */
const SHOWN_ERRORS = 10

/** A file of rules that cannot be imported. `errors` holds one message for every wrong place, `{ "rules[3].rate": "…" }`. */
export class RuleDocumentError extends InvalidDocumentError {
  readonly errors: FieldErrors

  constructor(errors: FieldErrors) {
    const shown = Object.entries(errors).slice(0, SHOWN_ERRORS)
    const others = Object.keys(errors).length - shown.length
    super(`Invalid rule document: ${listed(Object.fromEntries(shown))}${others > 0 ? `; and ${others} more` : ''}`)
    this.errors = errors
  }
}

function listed(errors: FieldErrors): string {
  return Object.entries(errors)
    .map(([field, message]) => `${field}: ${message}`)
    .join('; ')
}

/** A change of a rule or an override that cannot be reverted, since it is not there, or was changed again. */
export const RevertError: MessageErrorConstructor = createError('FST_RATE_LIMIT_REVERT', '%s', 409)

/** The code of an error that has one, as those of Node, databases and Prisma do. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/**
 * A package that a host installs itself, and that is not there, or is there and fails to import.
 *
 * @param user what needs the package
 * @param install the packages that `npm install` is given
 * @param since the oldest release that will do
 */
export function unloadablePeer(
  { user, name, install = name, since }: { user: string; name: string; install?: string; since?: string },
  error: unknown,
): Error {
  const isMissing = codeOf(error) === 'ERR_MODULE_NOT_FOUND' && messageOf(error).includes(`'${name}'`)
  const range = since === undefined ? '' : `, ${since} or later`
  const problem = isMissing
    ? `needs the package ${name}${range}: run "npm install ${install}" (${messageOf(error)})`
    : `cannot load the package ${name}, which is installed: ${lineOf(error)}`
  return new InvalidSettingError(`${user} ${problem}`, { cause: error })
}

/** What went wrong, in one line. Some errors of the network have nothing but a code. */
export function lineOf(error: unknown): string {
  return (messageOf(error) || codeOf(error) || 'unknown error').replace(/\s+/g, ' ').trim()
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
