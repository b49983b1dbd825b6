/** The models as `@adminjs/prisma` needs them. */
import type { RateLimitClient } from '../src/client.js'
import type { Resource } from './generated/adminjs-prisma.js'

type Model = ConstructorParameters<typeof Resource>[0]['model']

/** What Prisma keeps of its schema at run time. */
interface RuntimeDataModel {
  readonly models: Readonly<Record<string, { readonly fields: readonly RuntimeField[] } | undefined>>
}

interface RuntimeField {
  readonly name: string
  readonly kind: string
  readonly type: string
}

export type ModelName = Capitalize<keyof RateLimitClient & `rateLimit${string}`>

/** What is nobody's business but the triggers' and the statements'. */
const NOT_SHOWN = ['changedBy', 'asked', 'cost', 'admitted']

/**
 * A model of a Prisma client, completed: Prisma's own description is stripped, at run time, of what is an id and what is
 * required. The id of a counter is made up: its key, encoded.
 */
export function completedModel(name: ModelName, client: object): Model {
  const { models }: RuntimeDataModel = Reflect.get(client, '_runtimeDataModel')
  const stored = (models[name]?.fields ?? []).filter((field) => !NOT_SHOWN.includes(field.name))
  const hasId = stored.some((field) => field.name === 'id')
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
