import type { Database } from '../../database/database.js'
import type { Prisma } from '../../database/generated/sqlite/client.js'
import type { GeneratedClient } from '../../database/prisma/generated-client.js'
import { type FieldErrors, RuleValidationError, type WrongRow } from '../../ground/errors.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { validateFields } from '../../rules/create-entry.js'
import { type Description, type Extent, spelled, type Values } from '../../rules/description.js'
import { changeToken } from '../../rules/history/actor.js'
import { ascription } from '../../rules/table.js'
import type { RowWrite } from './checked-groups.js'
import { interactiveTransaction, transactionClient } from './transaction-client.js'
import { plainFields, type StoredRow, toValues, toWhere } from './write-args.js'

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

/** The fields of one row that a write gives, as the table validates them. */
interface Checked {
  /** As Prisma writes them, without the actor. */
  readonly data: Values
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
  /** The database of rules, which knows what conditions may ask. */
  readonly main: Pick<Database, 'sources' | 'dialect'>
  /** Returns the time to which expiries are compared, in milliseconds. */
  readonly now: () => number
}

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
  const { entity, fields, identity, shorthand } = description

  /** @param row the stored row that an update changes */
  function check(input: unknown, extent: Extent, row?: StoredRow): Checked {
    const long = toValues(input)
    const context = { nowMs: now(), sources: main.sources }
    const { values, errors } = validateFields(description, plainFields(long, row), extent, context, row)
    // A wrong value has no spelling.
    const spellings = hasAny(errors) ? {} : spelled(fields, values)
    // Prisma takes an undefined value for absent.
    return { data: { ...long, ...(shorthand && { [shorthand.name]: undefined }), ...spellings }, values, errors }
  }

  function checkUpdate(input: unknown, row: StoredRow | null): Checked {
    return row === null ? check(input, 'part') : check(input, 'stored', row)
  }

  async function wrongRows<T>(rows: readonly T[], checkRow: (row: T) => [Values, FieldErrors]): Promise<WrongRow[]> {
    const wrong: WrongRow[] = []
    const slices = new CooperativeYield()
    for (const [index, row] of rows.entries()) {
      const [values, errors] = checkRow(row)
      if (hasAny(errors)) wrong.push({ index, name: String(values[identity[0] ?? ''] ?? ''), errors })
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
  function saved(call: Write, args: object, rows: readonly Checked[], where?: object): Promise<unknown> {
    // The arguments are those of the extension's own call; the types cannot express that for all models at once.
    const send = () => call.query({ ...call.args, ...args } as never)
    return written(call, () => save({ call, send, where, rows: rows.map(({ values }) => values) }))
  }

  async function written(call: Write, send: () => Promise<unknown>): Promise<unknown> {
    try {
      return await send()
    } finally {
      await changed(interactiveTransaction(call) === undefined)
    }
  }

  function create(call: Write) {
    const row = check(Reflect.get(call.args, 'data'), 'new')
    refuse(row.errors)
    return saved(call, { data: { ...row.data, changedBy: changeToken() } }, [row])
  }

  async function createMany(call: Write) {
    const input: unknown = Reflect.get(call.args, 'data') ?? []
    const rows: Checked[] = []
    const wrong = await wrongRows([input].flat(), (each) => {
      const row = check(each, 'new')
      rows.push(row)
      return [row.values, row.errors]
    })
    if (Array.isArray(input)) refuse({}, wrong)
    else refuse(wrong[0]?.errors ?? {})
    const changedBy = changeToken()
    return saved(call, { data: rows.map(({ data }) => ({ ...data, changedBy })) }, rows)
  }

  async function update(call: Write) {
    const row = await find(transactionClient(client, call), call.args)
    const updated = checkUpdate(Reflect.get(call.args, 'data'), row)
    refuse(updated.errors)
    return saved(call, { data: { ...updated.data, changedBy: changeToken() } }, [updated], toWhere(call.args))
  }

  async function updateMany(call: Write) {
    const input: unknown = Reflect.get(call.args, 'data')
    const updated = checkUpdate(input, null)
    const rows = await rowsFor(transactionClient(client, call)).findMany({ where: toWhere(call.args) as never })
    const wrong = await wrongRows(rows, (row) => {
      const { values, errors } = checkUpdate(input, row)
      // Errors of the update itself are reported once, not for every row.
      return [{ ...row, ...values }, without(errors, updated.errors)]
    })
    refuse(updated.errors, wrong)
    return saved(call, { data: { ...updated.data, changedBy: changeToken() } }, [updated], toWhere(call.args))
  }

  async function upsert(call: Write) {
    const row = await find(transactionClient(client, call), call.args)
    const created = check(Reflect.get(call.args, 'create'), 'new')
    const updated = checkUpdate(Reflect.get(call.args, 'update'), row)
    refuse({ ...created.errors, ...updated.errors })
    const changedBy = changeToken()
    const args = { create: { ...created.data, changedBy }, update: { ...updated.data, changedBy } }
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

  async function ascribe(queries: GeneratedClient, rows: readonly Pick<StoredRow, 'id'>[]): Promise<void> {
    if (rows.length === 0) return
    const { sql, parameters } = ascription(main.dialect, entity, rows)
    // Prisma's driver of SQLite takes parameters in their order.
    const text = main.dialect.provider === 'sqlite' ? sql.replace(/\$\d/g, '?') : sql
    const ascribed = Promise.resolve(queries.$executeRawUnsafe(text, ...parameters))
    underWay.add(ascribed)
    await ascribed.finally(() => underWay.delete(ascribed))
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
