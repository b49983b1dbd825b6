import { setImmediate } from 'node:timers/promises'
import { type ActionContext, AppError, BaseRecord, type Filter, ValidationError } from 'adminjs'
import { errorCode, errorMessage, RuleValidationError } from '../src/ground/errors.js'
import { type Description, spelled } from '../src/rules/description.js'
import { asActor, fromSource } from '../src/rules/history/actor.js'
import {
  type Condition,
  type FilterKind,
  type FilterValues,
  orSpelled,
  type Provider,
  type Search,
  type Spelled,
  searchIn,
  toConditions,
} from './conditions.js'
import { Resource } from './generated/adminjs-prisma.js'
import { completedModel, type ModelName } from './models.js'
import { notice } from './resources/actions.js'

type Direction = 'asc' | 'desc'

interface Table {
  /** Its name in the panel's addresses. */
  readonly name: string
  readonly model: ModelName
  readonly provider: Provider
  readonly client: object
  readonly filters: Readonly<Record<string, FilterKind>>
  /** The fields that the filter `search` covers. */
  readonly searched?: readonly string[]
  /** The field that `search` finds in other spellings, too. */
  readonly spelled?: Spelled
  /** Returns a condition in addition to the filters, such as the window of a list. */
  readonly always?: (filters: FilterValues, context?: ActionContext) => Condition | Promise<Condition>
  /** The order of a list; `sortable` has the only fields by which an address may sort it instead. */
  readonly order: readonly Readonly<Record<string, Direction>>[]
  readonly sortable?: readonly string[]
  /** The description of a table that can be written, with the fields that identify a row. */
  readonly description?: Description
  /** The only fields that can be written. */
  readonly editable?: readonly string[]
  /** Returns further values to show with the fields of a row. */
  readonly shown?: (row: Row) => Row
}

export type Row = Readonly<Record<string, unknown>>

interface Rows {
  count(query: object): Promise<number>
  findMany(query: object): Promise<Row[]>
  findUnique(query: object): Promise<Row | null>
  findFirst(query: object): Promise<Row | null>
  create(query: object): Promise<Row>
  update(query: object): Promise<Row>
  delete(query: object): Promise<Row>
}

/** The most rows of a page, as in AdminJS. */
const MAX_PAGE = 500

/** The number at which a list stops counting, since counting ten million rows takes seconds. */
const COUNTED = 10_000

/** Rows per read of a search; requests are answered between two reads. */
const BATCH = 1_000

/**
 * A table as `@adminjs/prisma` shows it, with replacements: that package counts all rows of a list, leaves the
 * comparison of texts to the database, sorts by any field, uses a single field as the id, and writes every field.
 */
export class PanelResource extends Resource {
  readonly #table: Table
  readonly #rows: Rows
  /** Whether the key of a row is its id: it may have any characters, and be too long for an address. */
  readonly #idIsKey: boolean

  constructor(table: Table) {
    const model = completedModel(table.model, table.client)
    // The client's own types say nothing about a model that is chosen by its name.
    super({ model, client: table.client as never, clientModule: { Prisma: { dmmf: { datamodel: { enums: [] } } } } })
    this.#table = table
    this.#rows = this.manager as never
    this.#idIsKey = model.fields[0]?.type === 'String'
    for (const property of this.properties()) {
      property.isSortable = () => table.sortable?.includes(property.path()) ?? false
    }
    // Otherwise the Prisma adapter of the host's own AdminJS would take this for one of its tables.
    Reflect.deleteProperty(this, 'client')
  }

  override id(): string {
    return this.#table.name
  }

  override databaseType(): string {
    return this.#table.provider
  }

  /** Counts at most one row more than `COUNTED`, which means "more". */
  override async count(filter: Filter, context?: ActionContext): Promise<number> {
    // In the order of the list where that has a window: by ids, Prisma's default, all rows older than the window would
    // be read first.
    const order = this.#table.always === undefined ? {} : { orderBy: this.#table.order }
    const where = await this.#where(filter, context)
    const isMeant = this.#search(filter)?.isMeant
    if (isMeant === undefined) return this.#rows.count({ where, ...order, take: COUNTED + 1 })
    return (await this.#findMeant({ where, orderBy: this.#table.order }, isMeant, COUNTED + 1)).length
  }

  override async find(
    filter: Filter,
    { limit = 10, offset = 0, sort = {} }: FindOptions = {},
    context?: ActionContext,
  ): Promise<BaseRecord[]> {
    const query = { where: await this.#where(filter, context), orderBy: this.#orderBy(sort) }
    const skip = Math.min(Math.max(Math.trunc(offset) || 0, 0), COUNTED)
    // For a negative number Prisma returns the last rows, without a limit.
    const take = Math.min(Math.max(Math.trunc(limit) || 0, 0), MAX_PAGE)
    const isMeant = this.#search(filter)?.isMeant
    const rows =
      isMeant === undefined
        ? await this.#rows.findMany({ ...query, skip, take })
        : (await this.#findMeant(query, isMeant, skip + take)).slice(skip)
    return rows.map((row) => this.#record(row))
  }

  override async findOne(id: string | number): Promise<BaseRecord | null> {
    const where = this.#whereId(id)
    const row = where === undefined ? null : await this.#rows.findUnique({ where })
    return row === null ? null : this.#record(row)
  }

  override async findMany(ids: (string | number)[]): Promise<BaseRecord[]> {
    const found = await Promise.all([...new Set(ids)].map((id) => this.findOne(id)))
    return found.filter((record) => record !== null)
  }

  override create(params: Row, context?: ActionContext): Promise<Record<string, unknown>> {
    return this.#write(context, params, () => this.#rows.create({ data: this.#data(params) }))
  }

  override update(id: string | number, params: Row = {}, context?: ActionContext): Promise<Record<string, unknown>> {
    return this.#write(context, params, () => this.#rows.update({ where: this.#whereId(id), data: this.#data(params) }))
  }

  override async delete(id: string | number, context?: ActionContext): Promise<void> {
    await this.#write(context, {}, () => this.#rows.delete({ where: this.#whereId(id) }))
  }

  async #where(filter: Filter, context?: ActionContext): Promise<Condition> {
    const values = toValues(filter)
    const others = [await this.#table.always?.(values, context), this.#search(filter)?.condition]
    return { AND: [...toConditions(this.#table.filters, values), ...others.filter((each) => each !== undefined)] }
  }

  #search(filter: Filter): Search | undefined {
    const { searched, spelled, provider } = this.#table
    const asked = toValues(filter).search
    const search = searched && searchIn(searched, asked, provider)
    return search && spelled ? orSpelled(search, spelled, asked) : search
  }

  /** Returns the first rows that the search means, at most `most`. */
  async #findMeant(query: object, isMeant: (row: Row) => boolean, most: number): Promise<Row[]> {
    const meant: Row[] = []
    for (let skip = 0; meant.length < most; skip += BATCH) {
      const rows = await this.#rows.findMany({ ...query, skip, take: BATCH })
      meant.push(...rows.filter(isMeant))
      if (rows.length < BATCH) break
      await setImmediate()
    }
    return meant.slice(0, most)
  }

  #orderBy({ sortBy, direction }: NonNullable<FindOptions['sort']>): object[] {
    const { order, sortable = [] } = this.#table
    const asked = sortBy !== undefined && sortable.includes(sortBy) ? [{ [sortBy]: direction ?? 'asc' }] : []
    return [...asked, ...order.filter((field) => !(sortBy !== undefined && asked.length > 0 && sortBy in field))]
  }

  #whereId(id: string | number): Condition | undefined {
    // Keys have no NUL, which PostgreSQL refuses.
    if (this.#idIsKey) return { key: Buffer.from(String(id), 'base64url').toString().replaceAll('\0', '') }
    return Number.isSafeInteger(Number(id)) ? { id: Number(id) } : undefined
  }

  #record(row: Row): BaseRecord {
    return new BaseRecord(this.#params(row), this)
  }

  #params(row: Row): Record<string, unknown> {
    const names = this.properties().map((property) => property.path())
    const fields = Object.fromEntries(names.map((name) => [name, row[name]]))
    const id = this.#idIsKey ? { id: Buffer.from(String(row.key)).toString('base64url') } : {}
    return { ...fields, ...id, ...this.#table.shown?.(row) }
  }

  #data(params: Row): Row {
    const names = this.#table.editable ?? []
    return Object.fromEntries(
      names.flatMap((name) => (params[name] === undefined ? [] : [[name, written(params[name])]])),
    )
  }

  /** Returns the id of the row that has the identity of a row to be written; undefined where it is gone by now. */
  async #idOfOther(params: Row): Promise<number | undefined> {
    const { description } = this.#table
    if (description === undefined) return undefined
    const identity = Object.fromEntries(description.identity.map((name) => [name, params[name] ?? '']))
    const where = { ...identity, ...spelled(description.fields, identity) }
    return Number((await this.#rows.findFirst({ where }))?.id) || undefined
  }

  async #write(
    context: ActionContext | undefined,
    params: Row,
    write: () => Promise<Row>,
  ): Promise<Record<string, unknown>> {
    try {
      return this.#params(await fromPanel(context, write))
    } catch (error) {
      const duplicates = errorCode(error) === DUPLICATE
      throw explained(error, this.#table.name, duplicates ? await this.#idOfOther(params) : undefined)
    }
  }
}

/** Prisma's code for a row whose identity another row has. */
const DUPLICATE = 'P2002'

/** Restores line feeds, which forms send as CRLF: otherwise an unedited text would change when it is saved. */
function written(value: unknown): unknown {
  return typeof value === 'string' ? value.replaceAll('\r\n', '\n') : value
}

/** Returns the values of a list's filters. */
function toValues({ filters }: Filter): FilterValues {
  return Object.fromEntries(Object.entries(filters ?? {}).map(([name, { value }]) => [name, value]))
}

interface FindOptions {
  limit?: number
  offset?: number
  sort?: { sortBy?: string; direction?: Direction }
}

/** Runs a write that the history ascribes to the panel, and to the actor of it, or of the host's own AdminJS. */
export function fromPanel<T>(context: ActionContext | undefined, write: () => Promise<T>): Promise<T> {
  const actor = context?.currentAdmin?.email
  return fromSource('panel', () => (actor === undefined ? write() : asActor(actor, write)))
}

const DISCONNECTED = 'The row was deleted in the meantime.'

/**
 * Returns the error of a row that could not be saved as the form shows it: field errors below fields, others above.
 *
 * @param other the id of the row that has the same identity, which the form links to
 */
function explained(error: unknown, table: string, other: number | undefined): unknown {
  if (error instanceof RuleValidationError) {
    const fields = Object.entries(error.errors).map(([field, message]) => [field, { message: sentence(message) }])
    return new ValidationError(Object.fromEntries(fields))
  }
  const code = errorCode(error)
  if (code === 'P2002') {
    const row = other === undefined ? {} : { row: other }
    return table === 'rules'
      ? new ValidationError({ name: { message: 'There is a rule of this name already.', ...row } })
      : new ValidationError({ client: { message: 'This client has an override for this path already.', ...row } })
  }
  if (code === 'P2025') return new AppError(DISCONNECTED, undefined, notice(DISCONNECTED, 'error'))
  if (error instanceof AppError) return error
  return new Error(errorMessage(error), { cause: error })
}

/** Returns a message of the validation, which continues the name of a field, as a sentence. */
function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
}
