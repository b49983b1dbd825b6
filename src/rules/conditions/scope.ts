/** What the parts of a condition share while they are compiled. */
import type { Expression } from './cel.js'
import type { ConditionFacts } from './condition-facts.js'
import { ConditionFailure, errorAt } from './failure.js'
import { MISSING, type Result } from './values.js'

/** Returns the value of a part of a condition for a request; MISSING where it depends on something missing. */
export type Evaluate = (facts: ConditionFacts) => Result

/** What surrounds a part of a condition. */
export interface Scope {
  /** The name of the element, within a macro. */
  readonly element: string | undefined
  readonly depth: number
  readonly found: Findings
  /** Compiles a part within this one. */
  compile(node: Expression, scope: Scope): Evaluate
}

/** What a condition turns out to need. */
export interface Findings {
  readsUser: boolean
}

/** Compiles a part that is true or false; what is missing is false. */
export function compileTruth(node: Expression, scope: Scope): (facts: ConditionFacts) => boolean {
  const evaluate = scope.compile(node, scope)
  const failure = failureAt(node, 'is neither true nor false')
  return (facts) => {
    const value = evaluate(facts)
    if (typeof value === 'boolean') return value
    if (value === MISSING) return false
    throw failure
  }
}

/** Creates the failure of a part, once: it may be thrown for every request. */
export function failureAt(node: Expression, problem: string): ConditionFailure {
  return new ConditionFailure(errorAt({ input: node.input, pos: node.start }, problem).message)
}
