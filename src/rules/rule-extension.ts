import type { GeneratedClient } from '../db/client.js'
import { checkedWrites, type WriteOptions } from './checked-writes.js'
import { OVERRIDES } from './override.js'
import { RULES } from './rule.js'

/** Checks every write to rules and overrides. */
export function withCheckedWrites(client: GeneratedClient, options: WriteOptions) {
  const rules = { description: RULES, rows: ({ rateLimitRule }: GeneratedClient) => rateLimitRule }
  const overrides = { description: OVERRIDES, rows: ({ rateLimitOverride }: GeneratedClient) => rateLimitOverride }
  return client.$extends({
    name: 'checked-writes',
    query: {
      rateLimitRule: checkedWrites(rules, client, options),
      rateLimitOverride: checkedWrites(overrides, client, options),
    },
  })
}
