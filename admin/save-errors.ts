import { AppError, ValidationError } from 'adminjs'
import { errorCode, errorMessage, RuleValidationError } from '../src/errors.js'
import { notice } from './resources/actions.js'

const GONE = 'The row was deleted in the meantime.'

/**
 * Returns the error of a row that could not be saved as the form shows it: field errors below fields, others above.
 *
 * @param other the id of the row that has the same identity, which the form links to
 */
export function explained(error: unknown, table: string, other: number | undefined): unknown {
  if (error instanceof RuleValidationError) {
    const fields = Object.entries(error.errors).map(([field, message]) => [field, { message: sentence(message) }])
    return new ValidationError(Object.fromEntries(fields))
  }
  const code = errorCode(error)
  if (code === 'P2002') {
    const row = other === undefined ? {} : { row: other }
    return table === 'rules'
      ? new ValidationError({ name: { message: 'There is a rule of this name already.', ...row } })
      : new ValidationError({ client: { message: 'This client has an override for this path already.', ...row } })
  }
  if (code === 'P2025') return new AppError(GONE, undefined, notice(GONE, 'error'))
  if (error instanceof AppError) return error
  return new Error(errorMessage(error), { cause: error })
}

/** Returns a message of the validation, which continues the name of a field, as a sentence. */
function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
}
