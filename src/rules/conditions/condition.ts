import type { GeoFileKind } from '../../clients/geo.js'
import { remember } from '../../ground/remember.js'
import { toFailure } from './cel.js'
import { compileExpression } from './compile.js'
import type { ConditionFacts } from './condition-facts.js'
import { ConditionFailure, MISSING } from './failure.js'

export const MAX_CONDITION_LENGTH = 1_000
/** The number of compiled conditions that are remembered: rules of a kind often have the same one. */
const REMEMBERED = 1_000

const NOT_BOOLEAN = new ConditionFailure('is neither true nor false for this request')

/** A compiled condition. */
export interface Condition {
  readonly text: string
  readonly readsUser: boolean
  /** The names of the lists that it asks: mostly none. */
  readonly lists: readonly string[]
  /** The files about addresses that it asks: mostly none. */
  readonly geo: readonly GeoFileKind[]
  /**
   * Returns whether the condition holds for a request; one that reads a field that the user does not have does not.
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
  const { evaluate, readsUser, fields, lists, geo } = compileExpression(text)
  return {
    text,
    readsUser,
    lists,
    geo,
    holds(facts) {
      // The loop answers as evaluating does, without an error that is thrown for every client without a user.
      for (const field of fields) if (facts.lacks(field)) return false
      const value = evaluated(facts)
      // Part of it may have been decided without what took too much.
      facts.refuseExhausted()
      if (typeof value !== 'boolean') throw NOT_BOOLEAN
      return value
    },
  }

  function evaluated(facts: ConditionFacts): unknown {
    try {
      return evaluate(facts)
    } catch (error) {
      facts.refuseExhausted()
      if (error === MISSING) return false
      throw toFailure(text, error)
    }
  }
})
