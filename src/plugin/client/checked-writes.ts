import type { Database } from '../../database/database.js'
import type { Prisma } from '../../database/generated/sqlite/client.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import { type FieldErrors, RuleValidationError, type WrongRow } from '../../ground/errors.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { fieldErrors } from '../../rules/create-entry.js'
import { type Description, type Extent, expandShorthand, spelled, type Values } from '../../rules/description.js'
import { changeToken, currentAuthor } from '../../rules/history/actor.js'
import type { RowWrite } from './checked-groups.js'
import { interactiveTransaction, transactionClient } from './transaction-client.js'
import { merge, plainFields, type StoredRow, toValues, toWhere } from './write-args.js'

/** A model whose writes are validated. */
export interface CheckedModel {
  readonly description: Pick<Description, 'entity' | 'fields' | 'identity' | 'errors' | 'shorthand'>
  /** Returns the model of a client. */
  rows(client: GeneratedClient): ModelRows
  /** Sends a write of valid rows; without it they are sent as they are. */
  readonly save?: (write: RowWrite) => Promise<unknown>
}

/** The methods that all models share; each model's own types say more about the arguments. */
interface ModelRows {
  findUnique(query: { where: never }): PromiseLike<StoredRow | null>
  findMany(query: { where: never; select?: { id: true } }): PromiseLike<StoredRow[]>
}

/** The fields of one row that a write gives, without a shorthand, and the message for a wrong shorthand. */
interface Given {
  readonly values: Values
  readonly errors: FieldErrors
}

/** A call of a query extension, as far as all operations share it. */
interface Write {
  readonly args: object
  query(args: never): Prisma.PrismaPromise<unknown>
}

export interface WriteOptions {
  /**
   * Notes a write, which resolves when the returned promise does.
   *
   * @param isCommitted false for a part of a transaction that is still open
   */
  readonly changed: (isCommitted: boolean) => Promise<void>
  /**
   * The queries that still follow a write. Closing has to wait for them: a failed `$transaction([...])` does not wait
   * for its parts, and Prisma, closed at the wrong moment of a query, waits for that query for ever.
   */
  readonly underWay: Set<Promise<unknown>>
  /** The database, which knows what conditions may ask. */
  readonly main: Pick<Database, 'sources'>
  /** Returns the time to which expiries are compared, in milliseconds. */
  readonly now: () => number
}

/** The most deletions that one statement ascribes: SQLite takes 999 parameters. */
const ASCRIBED = 500

/**
 * Creates the query extension of a model. An invalid write is refused with all its errors; a valid one is stamped with
 * its actor; `changed` is called afterwards.
 *
 * Raw SQL bypasses the extension: rows that it writes are validated when they are read.
 */
export function checkedWrites(
  { description, rows: rowsFor, save = ({ send }) => send() }: CheckedModel,
  client: GeneratedClient,
  { changed, underWay, main, now }: WriteOptions,
) {
  const { entity, fields, identity } = description

  function given(data: unknown): Given {
    return expandShorthand(description, toValues(data), now())
  }

  function errorsFor({ values, errors }: Given, extent: Extent, named = values): FieldErrors {
    const context = { nowMs: now(), sources: main.sources }
    return { ...fieldErrors(description, plainFields(named), plainFields(values), extent, context), ...errors }
  }

  function stamped({ values }: Given, changedBy = changeToken()): Values {
    return { ...values, ...spelled(fields, plainFields(values)), changedBy }
  }

  function merged(row: StoredRow, data: Given): Given {
    return { ...data, values: merge(row, data.values) }
  }

  /** Returns the errors of an update, and of the fields that it leaves as they are. */
  function updateErrors(data: Given, row: StoredRow | null): FieldErrors {
    return row === null ? errorsFor(data, 'part') : errorsFor(merged(row, data), 'stored', data.values)
  }

  async function wrongRows(rows: readonly Given[], extent: Extent): Promise<WrongRow[]> {
    const wrong: WrongRow[] = []
    const slices = new CooperativeYield()
    for (const [index, row] of rows.entries()) {
      const errors = errorsFor(row, extent, extent === 'new' ? row.values : {})
      if (hasAny(errors)) wrong.push({ index, name: String(row.values[identity[0] ?? ''] ?? ''), errors })
      if (slices.over()) await slices.pause()
    }
    return wrong
  }

  /** @throws RuleValidationError when there are errors */
  function refuse(errors: FieldErrors, rows: readonly WrongRow[] = []): void {
    if (hasAny(errors) || rows.length > 0) throw new RuleValidationError(errors, rows, entity)
  }

  function find(queries: GeneratedClient, args: object): PromiseLike<StoredRow | null> {
    return rowsFor(queries).findUnique({ where: toWhere(args) as never })
  }

  /** @param where the stored rows that are changed; undefined where rows are created */
  function saved(call: Write, args: object, rows: readonly Given[], where?: object): Promise<unknown> {
    // The arguments are those of the extension's own call; the types cannot express that for all models at once.
    const send = () => call.query(args as never)
    return written(call, () => save({ call, send, where, rows: rows.map(({ values }) => plainFields(values)) }))
  }

  async function written(call: Write, send: () => Promise<unknown>): Promise<unknown> {
    try {
      return await send()
    } finally {
      await changed(interactiveTransaction(call) === undefined)
    }
  }

  function create(call: Write) {
    const data = given(Reflect.get(call.args, 'data'))
    refuse(errorsFor(data, 'new'))
    return saved(call, { ...call.args, data: stamped(data) }, [data])
  }

  async function createMany(call: Write) {
    const input: unknown = Reflect.get(call.args, 'data') ?? []
    const rows = (Array.isArray(input) ? input : [input]).map(given)
    const wrong = await wrongRows(rows, 'new')
    if (Array.isArray(input)) refuse({}, wrong)
    else refuse(wrong[0]?.errors ?? {})
    const token = changeToken()
    return saved(call, { ...call.args, data: rows.map((row) => stamped(row, token)) }, rows)
  }

  async function update(call: Write) {
    const row = await find(transactionClient(client, call), call.args)
    const data = given(Reflect.get(call.args, 'data'))
    refuse(updateErrors(data, row))
    return saved(call, { ...call.args, data: stamped(data) }, [data], toWhere(call.args))
  }

  async function updateMany(call: Write) {
    const data = given(Reflect.get(call.args, 'data'))
    const rows = await rowsFor(transactionClient(client, call)).findMany({ where: toWhere(call.args) as never })
    const updateFieldErrors = updateErrors(data, null)
    const wrong = await wrongRows(
      rows.map((row) => merged(row, data)),
      'stored',
    )
    // Errors of the update itself are reported once, not for every row.
    const others = wrong.map((row) => ({ ...row, errors: without(row.errors, updateFieldErrors) }))
    refuse(
      updateFieldErrors,
      others.filter(({ errors }) => hasAny(errors)),
    )
    return saved(call, { ...call.args, data: stamped(data) }, [data], toWhere(call.args))
  }

  async function upsert(call: Write) {
    const row = await find(transactionClient(client, call), call.args)
    const created = given(Reflect.get(call.args, 'create'))
    const updated = given(Reflect.get(call.args, 'update'))
    refuse({ ...errorsFor(created, 'new'), ...updateErrors(updated, row) })
    const token = changeToken()
    const args = { ...call.args, create: stamped(created, token), update: stamped(updated, token) }
    return row === null ? saved(call, args, [created]) : saved(call, args, [updated], toWhere(call.args))
  }

  async function deleteOne(call: Write) {
    const queries = transactionClient(client, call)
    const row = await find(queries, call.args)
    return deleted(call, queries, row === null ? [] : [row])
  }

  async function deleteMany(call: Write) {
    const queries = transactionClient(client, call)
    // Selects only ids, since raw SQL may have written values that Prisma cannot read.
    const rows = await rowsFor(queries).findMany({ where: toWhere(call.args) as never, select: { id: true } })
    return deleted(call, queries, rows)
  }

  function deleted(call: Write, queries: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<unknown> {
    return written(call, async () => {
      const answer = await call.query(call.args as never)
      await ascribe(queries, rows)
      return answer
    })
  }

  /** Records who deleted rows in the changes that the trigger recorded, since a deleted row cannot carry it. */
  async function ascribe(queries: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<void> {
    const ascription = ascribeAll(queries, rows)
    underWay.add(ascription)
    await ascription.finally(() => underWay.delete(ascription))
  }

  async function ascribeAll(queries: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<void> {
    const author = currentAuthor()
    for (let start = 0; start < rows.length; start += ASCRIBED) {
      const ids = rows.slice(start, start + ASCRIBED).map(({ id }) => BigInt(id))
      await queries.rateLimitChange.updateMany({
        where: { entity, rowId: { in: ids }, action: 'delete', source: 'sql' },
        data: author,
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
