/**
 * The models as `@adminjs/prisma` needs them. Prisma's own description is stripped, at run time, of what is an id and what
 * is required; test/admin/models.test.ts proves that the rest agrees with it.
 */
import type { Description, Kind } from '../src/rules/description.js'
import { OVERRIDES } from '../src/rules/override.js'
import { RULES } from '../src/rules/rule.js'
import type { Resource } from './generated/adminjs-prisma.js'

type Model = ConstructorParameters<typeof Resource>[0]['model']
type Scalar = 'String' | 'Boolean' | 'Int' | 'BigInt' | 'DateTime'

/** The scalar fields of a model; `id` is made up where the key of a row is its id. */
export type ModelFields = Readonly<Record<string, Scalar>>

const KINDS: Readonly<Record<Kind, Scalar>> = {
  text: 'String',
  boolean: 'Boolean',
  integer: 'Int',
  moment: 'DateTime',
}

/** A table that operators edit. */
function edited({ fields }: Description): ModelFields {
  const described = Object.entries(fields).map(([name, { kind }]) => [name, KINDS[kind]])
  return { id: 'Int', ...Object.fromEntries(described), createdAt: 'DateTime', updatedAt: 'DateTime' }
}

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
  RateLimitRule: edited(RULES),
  RateLimitOverride: edited(OVERRIDES),
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
