import { RuleValidationError } from '../../src/index.js'

/** Returns the error with which a write was refused. Whatever else becomes of it is thrown. */
export async function refusalOf(attempt: PromiseLike<unknown>): Promise<RuleValidationError> {
  try {
    await attempt
  } catch (error) {
    if (error instanceof RuleValidationError) return error
    throw error
  }
  throw new Error('It was not refused')
}
