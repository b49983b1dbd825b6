import type { GeneratedClient } from '../db/client.js'
import { type FieldErrors, RuleValidationError, type WrongRow } from '../errors.js'
import { Slices } from '../time/slices.js'
import { changeToken, currentActor } from './actor.js'
import { clientBeside, interactiveTransaction } from './client-beside.js'
import type { Extent, Fields } from './field-checks.js'
import { fieldsOf, merge, plainFields, type StoredRow, whereOf } from './write-args.js'

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
  findMany(client: GeneratedClient, where: object): Promise<StoredRow[]>
  /** Also of rows that raw SQL filled with what Prisma cannot read. */
  findIds(client: GeneratedClient, where: object): Promise<Pick<StoredRow, 'id'>[]>
}

/** A call of a query extension, as far as it is the same for all operations. */
interface Write {
  readonly args: object
  query(args: never): Promise<unknown>
}

export interface WriteOptions {
  /**
   * Called after every write, which resolves when that does.
   *
   * @param isCommitted false for a part of a transaction that goes on
   */
  readonly changed: (isCommitted: boolean) => Promise<void>
  /**
   * Has what still follows a write. Nobody else may know of it: a failed `$transaction([...])` does not wait for its
   * parts, and Prisma, closed at the wrong moment of a query, waits for that query for ever.
   */
  readonly underWay: Set<Promise<unknown>>
}

/** Deletions that one statement ascribes, at most: SQLite takes 999 parameters. */
const ASCRIBED = 500

/**
 * The query extension of a model: all that is wrong with a write is told at once, and nothing is written then; what is
 * written says who did it; and `changed` is called afterwards.
 *
 * Raw SQL does not come this way: rows it writes are checked when they are read.
 */
export function checkedWrites(model: CheckedModel, client: GeneratedClient, { changed, underWay }: WriteOptions) {
  async function written(call: Write, args: object, follow = async () => {}): Promise<unknown> {
    try {
      // What an extension is called with is what it may call on; the types cannot say so for all models at once.
      const answer = await call.query(args as never)
      await follow()
      return answer
    } finally {
      await changed(interactiveTransaction(call) === undefined)
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
    if (Array.isArray(given)) refuse(model, {}, wrong)
    else refuse(model, wrong[0]?.errors ?? {}, [])
    const token = changeToken()
    return written(call, { ...call.args, data: rows.map((row) => stamped(model, row, token)) })
  }

  async function update(call: Write) {
    const row = await model.find(clientBeside(client, call), whereOf(call.args))
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    refuse(model, updateErrors(model, data, row), [])
    return written(call, { ...call.args, data: stamped(model, data) })
  }

  async function updateMany(call: Write) {
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    const rows = await model.findMany(clientBeside(client, call), whereOf(call.args))
    const own = updateErrors(model, data, null)
    const merged = rows.map((row) => merge(row, data))
    const wrong = await wrongRows(model, merged, 'stored')
    // What is wrong with the update itself is told once, not for every row.
    const others = wrong.map((row) => ({ ...row, errors: without(row.errors, own) }))
    refuse(
      model,
      own,
      others.filter(({ errors }) => hasAny(errors)),
    )
    return written(call, { ...call.args, data: stamped(model, data) })
  }

  async function upsert(call: Write) {
    const row = await model.find(clientBeside(client, call), whereOf(call.args))
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
    const beside = clientBeside(client, call)
    const row = await model.find(beside, whereOf(call.args))
    return written(call, call.args, async () => {
      if (row !== null) await ascribe(beside, [row])
    })
  }

  async function deleteMany(call: Write) {
    const beside = clientBeside(client, call)
    const rows = await model.findIds(beside, whereOf(call.args))
    return written(call, call.args, () => ascribe(beside, rows))
  }

  /** A deleted row cannot carry who deleted it: that goes into the change which the trigger recorded. */
  async function ascribe(beside: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<void> {
    const ascription = ascribeAll(beside, rows)
    underWay.add(ascription)
    await ascription.finally(() => underWay.delete(ascription))
  }

  async function ascribeAll(beside: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<void> {
    for (let start = 0; start < rows.length; start += ASCRIBED) {
      const ids = rows.slice(start, start + ASCRIBED).map(({ id }) => BigInt(id))
      await beside.rateLimitChange.updateMany({
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

function without(errors: FieldErrors, others: FieldErrors): FieldErrors {
  return Object.fromEntries(Object.entries(errors).filter(([field]) => !(field in others)))
}

function hasAny(errors: FieldErrors): boolean {
  return Object.keys(errors).length > 0
}
