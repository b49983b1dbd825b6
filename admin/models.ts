/**
 * The models as `@adminjs/prisma` needs them. Prisma's own description is stripped, at run time, of what is an id and what
 * is required; test/admin/models.test.ts proves that the rest agrees with it.
 */
import type { Resource } from './generated/adminjs-prisma.js'

type Model = ConstructorParameters<typeof Resource>[0]['model']
type Scalar = 'String' | 'Boolean' | 'Int' | 'BigInt' | 'DateTime'

/** The scalar fields of a model; `id` is made up where the key of a row is its id. */
export type ModelFields = Readonly<Record<string, Scalar>>

const STATE = {
  key: 'String',
  periodMs: 'BigInt',
  checkedMs: 'BigInt',
  expiresAt: 'DateTime',
  createdAt: 'DateTime',
  updatedAt: 'DateTime',
} as const satisfies ModelFields

const BUCKET = { ...STATE, drainLimit: 'BigInt', used: 'BigInt', fraction: 'BigInt' } as const satisfies ModelFields

export const MODELS = {
  RateLimitRule: {
    id: 'Int',
    name: 'String',
    description: 'String',
    pathPattern: 'String',
    method: 'String',
    rate: 'String',
    key: 'String',
    algorithm: 'String',
    block: 'Boolean',
    isActive: 'Boolean',
    priority: 'Int',
    createdAt: 'DateTime',
    updatedAt: 'DateTime',
  },
  RateLimitOverride: {
    id: 'Int',
    client: 'String',
    effect: 'String',
    algorithm: 'String',
    pathPattern: 'String',
    expiresAt: 'DateTime',
    note: 'String',
    createdAt: 'DateTime',
    updatedAt: 'DateTime',
  },
  RateLimitEvent: {
    id: 'Int',
    timestamp: 'DateTime',
    key: 'String',
    ruleName: 'String',
    path: 'String',
    method: 'String',
    allowed: 'Boolean',
    count: 'BigInt',
    limit: 'Int',
    ipAddress: 'String',
    userId: 'BigInt',
    clientIp: 'String',
    client: 'String',
    policy: 'String',
    outcome: 'String',
  },
  RateLimitChange: {
    id: 'Int',
    changedAt: 'DateTime',
    actor: 'String',
    source: 'String',
    entity: 'String',
    rowId: 'BigInt',
    name: 'String',
    action: 'String',
    before: 'String',
    after: 'String',
  },
  RateLimitCounter: {
    key: 'String',
    count: 'BigInt',
    windowStart: 'DateTime',
    windowEnd: 'DateTime',
    createdAt: 'DateTime',
    updatedAt: 'DateTime',
  },
  RateLimitSlidingWindow: {
    ...STATE,
    cellStartMs: 'BigInt',
    previousCount: 'BigInt',
    currentCount: 'BigInt',
    limit: 'BigInt',
  },
  RateLimitTokenBucket: BUCKET,
  RateLimitLeakyBucket: BUCKET,
} as const satisfies Readonly<Record<string, ModelFields>>

export type ModelName = keyof typeof MODELS

/** A model, completed; the id of a counter is its key, encoded. */
export function completedModel(name: ModelName): Model {
  const stored: ModelFields = MODELS[name]
  const fields: ModelFields = 'id' in stored ? stored : { id: 'String', ...stored }
  return {
    name,
    dbName: null,
    schema: null,
    fields: Object.entries(fields).map(([field, type]) => ({
      name: field,
      type,
      kind: 'scalar',
      isId: field === 'id',
      // What is required is for the validation to say, in its own words.
      isRequired: false,
      isList: false,
      isUnique: false,
      isReadOnly: false,
      hasDefaultValue: false,
    })),
    uniqueFields: [],
    uniqueIndexes: [],
    primaryKey: null,
  }
}
