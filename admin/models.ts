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

/** Columns that only triggers and statements use. */
const NOT_SHOWN = ['changedBy', 'asked', 'windows', 'permits', 'firstMs', 'lastMs', 'granted']

/**
 * Returns a completed model of a Prisma client: at run time Prisma's own description lacks which fields are ids and
 * which are required. The id of a
 * counter is its key.
 */
export function completedModel(name: ModelName, client: object): Model {
  const { models }: RuntimeDataModel = Reflect.get(client, '_runtimeDataModel')
  const columns = models[name]?.fields ?? []
  const fields = columns.filter((field) => !NOT_SHOWN.includes(field.name))
  const idName = fields.some((field) => field.name === 'id') ? 'id' : 'key'
  return {
    name,
    dbName: null,
    schema: null,
    fields: fields.map((field) => ({
      name: field.name,
      type: field.type,
      kind: 'scalar',
      isId: field.name === idName,
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
