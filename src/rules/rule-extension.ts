import type { GeneratedClient } from '../db/client.js'
import { type CheckedModel, checkedWrites, type WriteOptions } from './checked-writes.js'
import { normalOverride, overrideErrors } from './override.js'
import { normalRule, ruleErrors } from './rule.js'

const RULES: CheckedModel = {
  entity: 'rule',
  errors: ruleErrors,
  normal: normalRule,
  nameOf: ({ name }) => name,
  find: (client, where) => client.rateLimitRule.findUnique({ where: where as never }),
  findMany: (client, where) => client.rateLimitRule.findMany({ where }),
  findIds: (client, where) => client.rateLimitRule.findMany({ where, select: { id: true } }),
}

/** @param now tells whether an expiry is past, in milliseconds */
function overrides(now: () => number): CheckedModel {
  return {
    entity: 'override',
    errors: (fields, extent) => overrideErrors(fields, extent, now()),
    normal: normalOverride,
    nameOf: ({ client }) => client,
    find: (client, where) => client.rateLimitOverride.findUnique({ where: where as never }),
    findMany: (client, where) => client.rateLimitOverride.findMany({ where }),
    findIds: (client, where) => client.rateLimitOverride.findMany({ where, select: { id: true } }),
  }
}

export interface ClientWriteOptions extends WriteOptions {
  /** The time, in milliseconds, by which expiries are past. */
  readonly now: () => number
  /** Runs a query when the tables can be used. */
  readonly whenReady: <T>(query: () => Promise<T>) => Promise<T>
}

/** Checks every write to rules and overrides. The tables are made ready before anything reads them. */
export function withCheckedWrites(client: GeneratedClient, { now, whenReady, ...options }: ClientWriteOptions) {
  return client
    .$extends({
      name: 'ready',
      query: { $allOperations: ({ args, query }) => whenReady(() => query(args)) },
    })
    .$extends({
      name: 'checked-writes',
      query: {
        rateLimitRule: checkedWrites(RULES, client, options),
        rateLimitOverride: checkedWrites(overrides(now), client, options),
      },
    })
}
