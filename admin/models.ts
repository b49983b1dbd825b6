/** Completes the models for `@adminjs/prisma`. */
import type { RateLimitClient } from '../src/plugin/client/client.js'
import type { Resource } from './generated/adminjs-prisma.js'

type Model = ConstructorParameters<typeof Resource>[0]['model']

/** The part of its schema that Prisma keeps at run time. */
interface RuntimeDataModel {
  readonly models: Readonly<Record<string, { readonly fields: readonly RuntimeField[] } | undefined>>
}

interface RuntimeField {
  readonly name: string
  readonly kind: string
  readonly type: string
}

export type ModelName = Capitalize<keyof RateLimitClient & `rateLimit${string}`>

/** Columns that only triggers and statements use; `cost` of a counter, which has no id, is such a one. */
const NOT_SHOWN = ['changedBy']
const NOT_SHOWN_OF_COUNTERS = ['asked', 'cost', 'admitted']

/**
 * Returns a completed model of a Prisma client: at run time Prisma's own description lacks which fields are ids and
 * which are required. The id of a counter is derived: its key, encoded.
 */
export function completedModel(name: ModelName, client: object): Model {
  const { models }: RuntimeDataModel = Reflect.get(client, '_runtimeDataModel')
  const columns = models[name]?.fields ?? []
  const hasId = columns.some((field) => field.name === 'id')
  const notShown = hasId ? NOT_SHOWN : NOT_SHOWN_OF_COUNTERS
  const stored = columns.filter((field) => !notShown.includes(field.name))
  const fields = hasId ? stored : [{ name: 'id', kind: 'scalar', type: 'String' }, ...stored]
  return {
    name,
    dbName: null,
    schema: null,
    fields: fields.map((field) => ({
      name: field.name,
      type: field.type,
      kind: 'scalar',
      isId: field.name === 'id',
      // The validation itself reports missing fields.
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
