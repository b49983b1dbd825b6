import type { GeneratedClient } from '../db/client.js'
import { type FieldErrors, RuleValidationError, type WrongRow } from '../errors.js'
import { changeToken, currentActor } from './actor.js'
import type { Extent } from './field-checks.js'
import { Slices } from './slices.js'

export type Fields = Readonly<Record<string, unknown>>

/** The columns that matter of a stored row. */
export interface StoredRow extends Fields {
  readonly id: number | bigint
}

/** A model whose every write is checked. */
export interface CheckedModel {
  readonly entity: 'rule' | 'override'
  /** One message for every wrong field. */
  errors(fields: Fields, extent: Extent): FieldErrors
  /** What has to be written otherwise than given. */
  normal(fields: Fields): Fields
  /** How a message names a row. */
  nameOf(fields: Fields): unknown
  find(client: GeneratedClient, where: object): Promise<StoredRow | null>
  findMany(client: GeneratedClient, where: object | undefined): Promise<StoredRow[]>
}

/** A call of a query extension, as far as it is the same for all operations. */
interface Write {
  readonly args: object
  query(args: never): Promise<unknown>
}

/** Deletions that one statement ascribes, at most: SQLite takes 999 parameters. */
const ASCRIBED = 500

/**
 * The query extension of a model: all that is wrong with a write is told at once, and nothing is written then; what is
 * written says who did it; and `changed` is told afterwards.
 *
 * Raw SQL does not come this way: rows it writes are checked when they are read.
 */
export function checkedWrites(model: CheckedModel, client: GeneratedClient, changed: () => void) {
  async function written(call: Write, args: object): Promise<unknown> {
    try {
      // What an extension is called with is what it may call on; the types cannot say so for all models at once.
      return await call.query(args as never)
    } finally {
      changed()
    }
  }

  function create(call: Write) {
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    refuse(model, model.errors(plainFields(data), 'new'), [])
    return written(call, { ...call.args, data: stamped(model, data) })
  }

  async function createMany(call: Write) {
    const given: unknown = Reflect.get(call.args, 'data') ?? []
    const rows = (Array.isArray(given) ? given : [given]).map(fieldsOf)
    const wrong = await wrongRows(model, rows.map(plainFields), 'new')
    refuse(model, Array.isArray(given) ? {} : (wrong[0]?.errors ?? {}), Array.isArray(given) ? wrong : [])
    const token = changeToken()
    return written(call, { ...call.args, data: rows.map((row) => stamped(model, row, token)) })
  }

  async function update(call: Write) {
    const row = await model.find(contextOf(client, call), whereOf(call) ?? {})
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    refuse(model, updateErrors(model, data, row), [])
    return written(call, { ...call.args, data: stamped(model, data) })
  }

  async function updateMany(call: Write) {
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    const rows = await model.findMany(contextOf(client, call), whereOf(call))
    const own = updateErrors(model, data, null)
    const merged = rows.map((row) => merge(row, data))
    const wrong = (await wrongRows(model, merged, 'stored')).map((row) => ({
      ...row,
      errors: without(row.errors, own),
    }))
    refuse(
      model,
      own,
      wrong.filter(({ errors }) => hasAny(errors)),
    )
    return written(call, { ...call.args, data: stamped(model, data) })
  }

  async function upsert(call: Write) {
    const row = await model.find(contextOf(client, call), whereOf(call) ?? {})
    const created = fieldsOf(Reflect.get(call.args, 'create'))
    const updated = fieldsOf(Reflect.get(call.args, 'update'))
    refuse(model, { ...model.errors(plainFields(created), 'new'), ...updateErrors(model, updated, row) }, [])
    const token = changeToken()
    return written(call, {
      ...call.args,
      create: stamped(model, created, token),
      update: stamped(model, updated, token),
    })
  }

  async function deleteOne(call: Write) {
    const context = contextOf(client, call)
    const row = await model.find(context, whereOf(call) ?? {})
    const answer = await written(call, call.args)
    if (row !== null) await ascribe(context, [row])
    return answer
  }

  async function deleteMany(call: Write) {
    const context = contextOf(client, call)
    const rows = await model.findMany(context, whereOf(call))
    const answer = await written(call, call.args)
    await ascribe(context, rows)
    return answer
  }

  /** A deleted row cannot carry who deleted it: that goes into the change which the trigger recorded. */
  async function ascribe(context: GeneratedClient, rows: readonly StoredRow[]): Promise<void> {
    for (let start = 0; start < rows.length; start += ASCRIBED) {
      const ids = rows.slice(start, start + ASCRIBED).map(({ id }) => BigInt(id))
      await context.rateLimitChange.updateMany({
        where: { entity: model.entity, rowId: { in: ids }, action: 'delete', source: 'sql' },
        data: { source: 'client', actor: currentActor() },
      })
    }
  }

  return {
    create,
    createMany,
    createManyAndReturn: createMany,
    update,
    updateMany,
    updateManyAndReturn: updateMany,
    upsert,
    delete: deleteOne,
    deleteMany,
  }
}

/** @throws RuleValidationError when anything is wrong */
function refuse(model: CheckedModel, errors: FieldErrors, rows: readonly WrongRow[]): void {
  if (hasAny(errors) || rows.length > 0) throw new RuleValidationError(errors, rows, model.entity)
}

async function wrongRows(model: CheckedModel, rows: readonly Fields[], extent: Extent): Promise<WrongRow[]> {
  const wrong: WrongRow[] = []
  const slices = new Slices()
  for (const [index, fields] of rows.entries()) {
    const errors = model.errors(fields, extent)
    if (hasAny(errors)) wrong.push({ index, name: String(model.nameOf(fields) ?? ''), errors })
    if (slices.over()) await slices.pause()
  }
  return wrong
}

/** What is wrong with an update, and with what it leaves as it was. */
function updateErrors(model: CheckedModel, data: Fields, row: StoredRow | null): FieldErrors {
  return row === null ? model.errors(plainFields(data), 'part') : model.errors(merge(row, data), 'stored')
}

function stamped(model: CheckedModel, data: Fields, changedBy = changeToken()): Fields {
  return { ...data, ...model.normal(plainFields(data)), changedBy }
}

/** A stored row as an update leaves it. */
function merge(row: StoredRow, data: Fields): Fields {
  const merged: Record<string, unknown> = { ...row }
  for (const [field, value] of Object.entries(data)) {
    const plain = plainValue(value, row[field])
    if (plain !== undefined) merged[field] = plain
  }
  return merged
}

function plainFields(data: Fields): Fields {
  return Object.fromEntries(Object.entries(data).map(([field, value]) => [field, plainValue(value, undefined)]))
}

/** Prisma's long form of an update without the wrapping: `{ set: '5/m' }`, `{ increment: 1 }`. */
function plainValue(value: unknown, stored: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  if ('set' in value) return value.set
  const [step] = Object.entries(value)
  const [operation, operand] = step ?? []
  if (typeof operand !== 'number') return value
  if (typeof stored !== 'number') return undefined
  if (operation === 'increment') return stored + operand
  if (operation === 'decrement') return stored - operand
  if (operation === 'multiply') return stored * operand
  if (operation === 'divide') return Math.trunc(stored / operand)
  return value
}

function fieldsOf(data: unknown): Fields {
  return typeof data === 'object' && data !== null ? Object.fromEntries(Object.entries(data)) : {}
}

function whereOf({ args }: Write): object | undefined {
  const where: unknown = Reflect.get(args, 'where')
  return typeof where === 'object' && where !== null ? where : undefined
}

function without(errors: FieldErrors, others: FieldErrors): FieldErrors {
  return Object.fromEntries(Object.entries(errors).filter(([field]) => !(field in others)))
}

function hasAny(errors: FieldErrors): boolean {
  return Object.keys(errors).length > 0
}

/**
 * The client to read with beside a write: inside of an interactive transaction the transaction's own, since no other
 * sees what it has written. Prisma tells an extension about it only here, and the version of Prisma is pinned.
 */
function contextOf(client: GeneratedClient, call: Write): GeneratedClient {
  const internal: unknown = Reflect.get(call, '__internalParams')
  const transaction: unknown = typeof internal === 'object' && internal !== null && Reflect.get(internal, 'transaction')
  if (typeof transaction !== 'object' || transaction === null || Reflect.get(transaction, 'kind') !== 'itx') {
    return client
  }
  const createItxClient: unknown = Reflect.get(client, '_createItxClient')
  if (typeof createItxClient !== 'function') return client
  return createItxClient.call(client, transaction)
}
