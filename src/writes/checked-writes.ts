import type { GeneratedClient } from '../db/client.js'
import { type FieldErrors, RuleValidationError, type WrongRow } from '../errors.js'
import { changeToken, currentActor } from '../history/actor.js'
import { type Description, type Extent, spelled, type Values } from '../rules/description.js'
import { Slices } from '../time/slices.js'
import { clientBeside, interactiveTransaction } from './client-beside.js'
import { fieldsOf, merge, plainFields, type StoredRow, whereOf } from './write-args.js'

/** A model whose every write is checked. */
export interface CheckedModel {
  readonly description: Pick<Description, 'entity' | 'fields' | 'identity' | 'errors'>
  /** The model of a client. */
  rows(client: GeneratedClient): ModelRows
}

/** The arguments of a model's own type say more than what is the same for all. */
interface ModelRows {
  findUnique(query: { where: never }): PromiseLike<StoredRow | null>
  findMany(query: { where: never; select?: { id: true } }): PromiseLike<StoredRow[]>
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
  /** The time, in milliseconds, by which expiries are past. */
  readonly now: () => number
}

/** Deletions that one statement ascribes, at most: SQLite takes 999 parameters. */
const ASCRIBED = 500

/**
 * The query extension of a model: all that is wrong with a write is told at once, and nothing is written then; what is
 * written says who did it; and `changed` is called afterwards.
 *
 * Raw SQL does not come this way: rows it writes are checked when they are read.
 */
export function checkedWrites(
  { description, rows: rowsOf }: CheckedModel,
  client: GeneratedClient,
  { changed, underWay, now }: WriteOptions,
) {
  const { entity, fields, identity } = description

  function errorsOf(values: Values, extent: Extent): FieldErrors {
    return description.errors(values, extent, now())
  }

  function stamped(data: Values, changedBy = changeToken()): Values {
    return { ...data, ...spelled(fields, plainFields(data)), changedBy }
  }

  /** What is wrong with an update, and with what it leaves as it was. */
  function updateErrors(data: Values, row: StoredRow | null): FieldErrors {
    return row === null ? errorsOf(plainFields(data), 'part') : errorsOf(merge(row, data), 'stored')
  }

  async function wrongRows(rows: readonly Values[], extent: Extent): Promise<WrongRow[]> {
    const wrong: WrongRow[] = []
    const slices = new Slices()
    for (const [index, values] of rows.entries()) {
      const errors = errorsOf(values, extent)
      if (hasAny(errors)) wrong.push({ index, name: String(values[identity[0] ?? ''] ?? ''), errors })
      if (slices.over()) await slices.pause()
    }
    return wrong
  }

  /** @throws RuleValidationError when anything is wrong */
  function refuse(errors: FieldErrors, rows: readonly WrongRow[] = []): void {
    if (hasAny(errors) || rows.length > 0) throw new RuleValidationError(errors, rows, entity)
  }

  function find(beside: GeneratedClient, args: object): PromiseLike<StoredRow | null> {
    return rowsOf(beside).findUnique({ where: whereOf(args) as never })
  }

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
    refuse(errorsOf(plainFields(data), 'new'))
    return written(call, { ...call.args, data: stamped(data) })
  }

  async function createMany(call: Write) {
    const given: unknown = Reflect.get(call.args, 'data') ?? []
    const rows = (Array.isArray(given) ? given : [given]).map(fieldsOf)
    const wrong = await wrongRows(rows.map(plainFields), 'new')
    if (Array.isArray(given)) refuse({}, wrong)
    else refuse(wrong[0]?.errors ?? {})
    const token = changeToken()
    return written(call, { ...call.args, data: rows.map((row) => stamped(row, token)) })
  }

  async function update(call: Write) {
    const row = await find(clientBeside(client, call), call.args)
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    refuse(updateErrors(data, row))
    return written(call, { ...call.args, data: stamped(data) })
  }

  async function updateMany(call: Write) {
    const data = fieldsOf(Reflect.get(call.args, 'data'))
    const rows = await rowsOf(clientBeside(client, call)).findMany({ where: whereOf(call.args) as never })
    const own = updateErrors(data, null)
    const merged = rows.map((row) => merge(row, data))
    const wrong = await wrongRows(merged, 'stored')
    // What is wrong with the update itself is told once, not for every row.
    const others = wrong.map((row) => ({ ...row, errors: without(row.errors, own) }))
    refuse(
      own,
      others.filter(({ errors }) => hasAny(errors)),
    )
    return written(call, { ...call.args, data: stamped(data) })
  }

  async function upsert(call: Write) {
    const row = await find(clientBeside(client, call), call.args)
    const created = fieldsOf(Reflect.get(call.args, 'create'))
    const updated = fieldsOf(Reflect.get(call.args, 'update'))
    refuse({ ...errorsOf(plainFields(created), 'new'), ...updateErrors(updated, row) })
    const token = changeToken()
    return written(call, {
      ...call.args,
      create: stamped(created, token),
      update: stamped(updated, token),
    })
  }

  async function deleteOne(call: Write) {
    const beside = clientBeside(client, call)
    const row = await find(beside, call.args)
    return written(call, call.args, async () => {
      if (row !== null) await ascribe(beside, [row])
    })
  }

  async function deleteMany(call: Write) {
    const beside = clientBeside(client, call)
    // The ids alone: raw SQL may have filled rows with what Prisma cannot read.
    const rows = await rowsOf(beside).findMany({ where: whereOf(call.args) as never, select: { id: true } })
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
        where: { entity, rowId: { in: ids }, action: 'delete', source: 'sql' },
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

function without(errors: FieldErrors, others: FieldErrors): FieldErrors {
  return Object.fromEntries(Object.entries(errors).filter(([field]) => !(field in others)))
}

function hasAny(errors: FieldErrors): boolean {
  return Object.keys(errors).length > 0
}
