import type { GeneratedClient } from '../db/client.js'
import { validateRule } from './rule.js'

/**
 * Validates every write to the rule table and tells `changed` after it. Raw SQL does not come this way: rows it
 * writes are checked when they are read, and seen when the cache expires.
 */
export function withRuleValidation(client: GeneratedClient, changed: () => void) {
  async function afterwards<T>(write: Promise<T>): Promise<T> {
    try {
      return await write
    } finally {
      changed()
    }
  }
  return client.$extends({
    name: 'rule-validation',
    query: {
      rateLimitRule: {
        create: ({ args, query }) => afterwards(query({ ...args, data: created(args.data) })),
        createMany: ({ args, query }) => afterwards(query({ ...args, data: createdMany(args.data) })),
        createManyAndReturn: ({ args, query }) => afterwards(query({ ...args, data: createdMany(args.data) })),
        update: ({ args, query }) => afterwards(query({ ...args, data: updated(args.data) })),
        updateMany: ({ args, query }) => afterwards(query({ ...args, data: updated(args.data) })),
        updateManyAndReturn: ({ args, query }) => afterwards(query({ ...args, data: updated(args.data) })),
        upsert: ({ args, query }) =>
          afterwards(query({ ...args, create: created(args.create), update: updated(args.update) })),
        delete: ({ args, query }) => afterwards(query(args)),
        deleteMany: ({ args, query }) => afterwards(query(args)),
      },
    },
  })
}

function created<T extends object>(data: T): T {
  return { ...data, ...validateRule(plainValues(data), true) }
}

function createdMany<T extends object>(data: T | T[] | undefined): T | T[] {
  if (data === undefined) return []
  return Array.isArray(data) ? data.map(created) : created(data)
}

function updated<T extends object>(data: T): T {
  return { ...data, ...validateRule(plainValues(data), false) }
}

/** Prisma's long form of an update, `{ rate: { set: '5/m' } }`, without the wrapping. */
function plainValues(data: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(data).map(([field, value]) => [
      field,
      typeof value === 'object' && value !== null && 'set' in value ? value.set : value,
    ]),
  )
}
