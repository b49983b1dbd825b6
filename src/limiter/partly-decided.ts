import type { Decision } from './algorithm.js'

/** Rejects a batch whose other checks a store has decided: it cannot advance the counters of those without a decision. */
export class PartlyDecidedError extends Error {
  override readonly name = 'PartlyDecidedError'
  readonly decisions: readonly (Decision | undefined)[]

  constructor(decisions: readonly (Decision | undefined)[], cause: unknown) {
    super('some counters cannot be advanced', { cause })
    this.decisions = decisions
  }
}
