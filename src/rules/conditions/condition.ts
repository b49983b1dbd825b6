import { remember } from '../../ground/remember.js'
import { compileExpression } from './compile.js'
import type { ConditionFacts } from './condition-facts.js'
import { ConditionFailure } from './failure.js'
import { MISSING } from './values.js'

export const MAX_CONDITION_LENGTH = 1_000
/** How many compiled conditions are remembered: rules of a kind often have the same one. */
const REMEMBERED = 1_000

const NOT_BOOLEAN = new ConditionFailure('answers neither true nor false for this request')

/** A compiled condition. */
export interface Condition {
  readonly text: string
  readonly readsUser: boolean
  /**
   * Returns whether the condition holds for a request; what the request does not have makes a comparison false.
   *
   * @throws TooMuchWork; ConditionFailure, or what a getter of the host's throws, where that cannot be decided
   */
  holds(facts: ConditionFacts): boolean
}

/**
 * Parses and compiles a condition.
 *
 * @returns undefined for an empty text, which is true for every request
 * @throws Error whose message shows the place and the remedy
 */
export function parseCondition(text: string): Condition | undefined {
  return text.trim() === '' ? undefined : compileConditionOnce(text)
}

const compileConditionOnce = remember(REMEMBERED, (text): Condition => {
  const { evaluate, readsUser } = compileExpression(text)
  return {
    text,
    readsUser,
    holds(facts) {
      const value = evaluate(facts)
      if (typeof value === 'boolean') return value
      if (value === MISSING) return false
      throw NOT_BOOLEAN
    },
  }
})
