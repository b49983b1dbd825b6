/**
 * The conformance suite of stores. Exported as `fastify-smart-ratelimit/testing`, for any test runner:
 *
 *     for (const { name, prove } of storeConformance) test(name, () => prove(() => new MyStore()))
 */
import { type Algorithm, RATE_ALGORITHMS } from '../../src/limiter/algorithm.js'
import type { Store } from '../../src/limiter/stores/store.js'
import { ALGORITHM_CASES, FIXED_WINDOW_CASES, KEY_CASES } from './algorithms.js'
import { CHARGE_CASES } from './charges.js'
import type { PolicyFunction } from './checks.js'
import { CONCURRENCY_CASES } from './concurrency.js'
import {
  chargesAsThePureFunctions,
  countsMonthsAsThePureFunctions,
  decidesAsThePureFunctions,
  decidesWindowsAsThePureFunctions,
  settlesAsThePureFunctions,
} from './traces.js'
import { WINDOW_CASES } from './windows.js'

export interface ConformanceCase {
  /** A sentence about what a store does. */
  readonly name: string
  /**
   * Rejects with an AssertionError when the store fails the case.
   *
   * @param open creates a store; it may share its tables or its server with others, as keys are never used twice
   */
  prove(open: () => Store | Promise<Store>): Promise<void>
}

function conformanceCase(name: string, proveWith: (store: Store) => Promise<void>): ConformanceCase {
  return {
    name,
    async prove(open) {
      const store = await open()
      try {
        await proveWith(store)
      } finally {
        await store.close()
      }
    },
  }
}

function casesFor(algorithm: Algorithm): ConformanceCase[] {
  const policy: PolicyFunction = (limit, periodMs = 60_000) => ({ algorithm, limit, periodMs })
  return Object.entries(ALGORITHM_CASES).map(([name, proveWith]) =>
    conformanceCase(`${algorithm}: ${name}`, (store) => proveWith(store, policy)),
  )
}

export const storeConformance: readonly ConformanceCase[] = [
  ...Object.entries({
    ...KEY_CASES,
    ...FIXED_WINDOW_CASES,
    ...WINDOW_CASES,
    ...CHARGE_CASES,
    ...CONCURRENCY_CASES,
  }).map(([name, proveWith]) => conformanceCase(name, proveWith)),
  ...RATE_ALGORITHMS.flatMap(casesFor),
  conformanceCase('decides as the pure functions do on a random trace', decidesAsThePureFunctions),
  conformanceCase(
    'decides several windows as the pure functions do on a random trace',
    decidesWindowsAsThePureFunctions,
  ),
  conformanceCase('counts months as the pure functions do on a random trace', countsMonthsAsThePureFunctions),
  conformanceCase('settles as the pure functions do on a random trace', settlesAsThePureFunctions),
  conformanceCase(
    'reserves, charges and gives back as the pure functions do on a random trace',
    chargesAsThePureFunctions,
  ),
]
