/** A condition that cannot be decided for a request. It is created when the condition is compiled, and thrown often. */
export class ConditionFailure extends Error {
  override readonly name: string = 'ConditionFailure'
}

/** A fact that is not known of a recorded request. */
export class UnknownFact extends Error {
  override readonly name = 'UnknownFact'
}

/** Returns the error that an operator with several failing operands throws: an unknown fact may have decided it. */
export function weightier(first: unknown, second: unknown): unknown {
  return first === undefined || second instanceof UnknownFact ? second : first
}
