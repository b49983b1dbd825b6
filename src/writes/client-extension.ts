import type { GeneratedClient } from '../db/generated-client.js'
import { OVERRIDES } from '../overrides/override.js'
import { RULES } from '../rules/rule.js'
import { checkedWrites, type WriteOptions } from './checked-writes.js'

export interface ClientWriteOptions extends WriteOptions {
  /** Runs a query when the tables can be used. */
  readonly whenReady: <T>(query: () => Promise<T>) => Promise<T>
}

/** Extends a client to validate every write to rules and overrides. Queries wait until the tables are ready. */
export function withCheckedWrites(client: GeneratedClient, { whenReady, ...options }: ClientWriteOptions) {
  const rules = { description: RULES, rows: ({ rateLimitRule }: GeneratedClient) => rateLimitRule }
  const overrides = { description: OVERRIDES, rows: ({ rateLimitOverride }: GeneratedClient) => rateLimitOverride }
  return client
    .$extends({
      name: 'ready',
      query: { $allOperations: ({ args, query }) => whenReady(() => query(args)) },
    })
    .$extends({
      name: 'checked-writes',
      query: {
        rateLimitRule: checkedWrites(rules, client, options),
        rateLimitOverride: checkedWrites(overrides, client, options),
      },
    })
}
