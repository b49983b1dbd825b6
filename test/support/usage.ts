import type { UsageCharge } from '../../src/log/usage/usage-log.js'

/** A charge of one token by one user, which is the first of its request. */
export function charge(given: Partial<UsageCharge> = {}): UsageCharge {
  const atMs = Date.UTC(2026, 10, 24, 12)
  return { client: 'user:7', unit: 'tokens', policy: 'llm', amount: 1, atMs, previousMs: undefined, ...given }
}
