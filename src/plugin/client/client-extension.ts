import type { Database } from '../../database/database.js'
import { redactUrl } from '../../database/database-url.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { RULES } from '../../rules/rule.js'
import { createGroupWriter } from './checked-groups.js'
import { checkedWrites, type WriteOptions } from './checked-writes.js'
import { isInTransaction } from './transaction-client.js'

export interface ClientWriteOptions extends WriteOptions {
  /** The database of the client, and that of rules and counters. */
  readonly database: Database
  readonly main: Database
  /** Runs a query when the tables can be used. */
  readonly whenReady: <T>(query: () => Promise<T>) => Promise<T>
}

/** Newest first. */
const EVENT_ORDER = [{ timestamp: 'desc' as const }, { id: 'desc' as const }]
/** By group, in each in the order in which rules are tried. */
const RULE_ORDER = [{ group: 'asc' as const }, { priority: 'desc' as const }, { name: 'asc' as const }]

/** Returns the arguments of a list, which has an order of its own where none is given. */
function inOrder<Args extends { orderBy?: unknown }>(args: Args, orderBy: Args['orderBy']): Args {
  return args.orderBy === undefined ? { ...args, orderBy } : args
}

/** @throws Error for a query of the log in a transaction of the other database */
function refuseTransaction(main: Database, call: object): void {
  const { url, log } = main
  if (log === main || !isInTransaction(call)) return
  throw new Error(
    `rateLimitEvent is in a database of its own (${redactUrl(log.url)}), which no $transaction of ${redactUrl(url)} reaches: query it outside of the transaction`,
  )
}

/** Extends a client to validate every write to rules and overrides, and to list events and rules in their order. Queries wait until the tables are ready. */
export function withCheckedWrites(
  client: GeneratedClient,
  { whenReady, database, main, ...options }: ClientWriteOptions,
) {
  const rules = {
    description: RULES,
    rows: ({ rateLimitRule }: GeneratedClient) => rateLimitRule,
    save: createGroupWriter(client, database.dialect),
  }
  const overrides = { description: OVERRIDES, rows: ({ rateLimitOverride }: GeneratedClient) => rateLimitOverride }
  return client
    .$extends({
      name: 'ready',
      query: {
        $allOperations: ({ args, query, model, ...call }) => {
          if (model === 'RateLimitEvent') refuseTransaction(main, call)
          return whenReady(() => query(args))
        },
      },
    })
    .$extends({
      name: 'listed-order',
      query: {
        rateLimitEvent: {
          findMany: ({ args, query }) => query(inOrder(args, EVENT_ORDER)),
          findFirst: ({ args, query }) => query(inOrder(args, EVENT_ORDER)),
          findFirstOrThrow: ({ args, query }) => query(inOrder(args, EVENT_ORDER)),
        },
        rateLimitRule: {
          findMany: ({ args, query }) => query(inOrder(args, RULE_ORDER)),
          findFirst: ({ args, query }) => query(inOrder(args, RULE_ORDER)),
          findFirstOrThrow: ({ args, query }) => query(inOrder(args, RULE_ORDER)),
        },
      },
    })
    .$extends({
      name: 'checked-writes',
      query: {
        rateLimitRule: checkedWrites(rules, client, { ...options, main }),
        rateLimitOverride: checkedWrites(overrides, client, { ...options, main }),
      },
    })
}
