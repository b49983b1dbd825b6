import { type ActionContext, AppError, type BaseRecord, ValidationError } from 'adminjs'
import { errorCode, errorMessage, RuleValidationError } from '../src/ground/errors.js'
import { asActor, createActionId, fromSource, inOneAction } from '../src/rules/history/actor.js'
import { Resource } from './generated/adminjs-prisma.js'
import { completedModel, type ModelName } from './models.js'
import { notice } from './resources/actions.js'

interface Table {
  /** The name in the panel's addresses. */
  readonly name: string
  readonly model: ModelName
  readonly provider: 'sqlite' | 'postgresql'
  readonly client: object
  /** The only fields by which a list can be sorted. */
  readonly sortable: readonly string[]
  /** The filters that compare whole texts; the adapter itself asks whether a text is contained. */
  readonly exact?: readonly string[]
  /** The number of the newest rows that a list shows; all unless given. */
  readonly newest?: number
  /** The field by which rows follow that are alike in what the list is sorted by; `id` unless given. */
  readonly orderedBy?: string
}

type Row = Readonly<Record<string, unknown>>

interface Query {
  readonly where?: Row
  readonly take?: number
  readonly skip?: number
  readonly orderBy?: Row
}

interface Rows {
  count(query: object): Promise<number>
  findMany(query: object): Promise<Row[]>
  findFirst(query: object): Promise<Row | null>
}

/** The most rows of a page, as in AdminJS. */
const MAX_PAGE = 500
/** The number at which a list stops counting, since counting ten million rows takes seconds. */
const COUNTED = 10_000

/**
 * Returns a table of the client with bounds for what the adapter reads: it would count all rows of a list, and search
 * them all.
 */
function bounded(rows: Rows, hasId: boolean, { exact = [], newest, orderedBy = 'id' }: Table): object {
  async function where({ where: filters = {} }: Query): Promise<Row> {
    const conditions = Object.entries(filters).map(([name, value]) => [
      name,
      exact.includes(name) ? whole(value) : value,
    ])
    if (newest === undefined) return Object.fromEntries(conditions)
    const last = await rows.findFirst({ orderBy: { id: 'desc' }, select: { id: true } })
    return { AND: [Object.fromEntries(conditions), { id: { gt: Number(last?.id ?? 0) - newest } }] }
  }
  return Object.create(rows, {
    count: { value: async (query: Query) => rows.count({ where: await where(query), take: COUNTED + 1 }) },
    findMany: {
      value: async (query: Query) =>
        rows.findMany({
          where: await where(query),
          // The last field makes the order total; keys have an index of one field.
          orderBy: hasId ? [query.orderBy ?? {}, { [orderedBy]: 'asc' }] : query.orderBy,
          skip: Math.min(Math.max(Math.trunc(query.skip ?? 0) || 0, 0), COUNTED),
          // Prisma returns the last rows for a negative number, without a limit.
          take: Math.min(Math.max(Math.trunc(query.take ?? MAX_PAGE) || 0, 0), MAX_PAGE),
        }),
    },
  })
}

/** Turns the adapter's comparison into one of whole texts. */
function whole(condition: unknown): unknown {
  const contained: unknown = Reflect.get(Object(condition), 'contains')
  return contained === undefined ? condition : { equals: contained }
}

/** A table as `@adminjs/prisma` shows it. */
export class PanelResource extends Resource {
  readonly #table: Table

  constructor(table: Table) {
    const model = completedModel(table.model, table.client)
    const name = table.model.charAt(0).toLowerCase() + table.model.slice(1)
    const hasId = model.fields.some((field) => field.name === 'id')
    // The client's own types say nothing about a model that is chosen by its name.
    const client = { [name]: bounded(Reflect.get(table.client, name), hasId, table) } as never
    super({ model, client, clientModule: { Prisma: { dmmf: { datamodel: { enums: [] } } } } })
    this.#table = table
    for (const property of this.properties()) {
      property.isSortable = () => table.sortable.includes(property.path())
    }
    // The Prisma adapter of the host's own AdminJS would take a resource with a client for one of its tables.
    Reflect.deleteProperty(this, 'client')
  }

  override id(): string {
    return this.#table.name
  }

  override databaseType(): string {
    return this.#table.provider
  }

  override async findMany(ids: (string | number)[]): Promise<BaseRecord[]> {
    const valid = [...new Set(ids)].filter((id) => Number.isSafeInteger(Number(id)) && Number(id) > 0)
    return super.findMany(valid.slice(0, MAX_PAGE))
  }

  override create(params: Row, context?: ActionContext): Promise<Record<string, unknown>> {
    return this.#write(context, () => super.create({ ...params }))
  }

  override update(id: string | number, params: Row = {}, context?: ActionContext): Promise<Record<string, unknown>> {
    return this.#write(context, () => super.update(id, { ...params }))
  }

  override delete(id: string | number, context?: ActionContext): Promise<void> {
    return this.#write(context, () => super.delete(id))
  }

  /** Writes as the actor of the panel, or of the host's own AdminJS. */
  async #write<T>(context: ActionContext | undefined, write: () => Promise<T>): Promise<T> {
    const actor = context?.currentAdmin?.email
    const act = () => inOneAction(write, actionOf(context))
    try {
      return await fromSource('panel', () => (actor === undefined ? act() : asActor(actor, act)))
    } catch (error) {
      throw explained(error, this.#table.name)
    }
  }
}

/** The actions by the contexts that AdminJS makes for them: a bulk writes row by row, with one context. */
const actions = new WeakMap<ActionContext, string>()

function actionOf(context: ActionContext | undefined): string {
  const actionId = (context && actions.get(context)) ?? createActionId()
  if (context !== undefined) actions.set(context, actionId)
  return actionId
}

const DISCONNECTED = 'The row was deleted in the meantime.'

/** Returns the error of a row that could not be saved as the form shows it: field errors below fields, others above. */
function explained(error: unknown, table: string): unknown {
  if (error instanceof RuleValidationError) {
    const fields = Object.entries(error.errors).map(([field, message]) => [field, { message: sentence(message) }])
    return new ValidationError(Object.fromEntries(fields))
  }
  const code = errorCode(error)
  if (code === 'P2002') {
    return table === 'rules'
      ? new ValidationError({ name: { message: 'There is a rule of this name already.' } })
      : new ValidationError({ client: { message: 'This client has an override for this path already.' } })
  }
  if (code === 'P2025') return new AppError(DISCONNECTED, undefined, notice(DISCONNECTED, 'error'))
  if (error instanceof AppError) return error
  return new Error(errorMessage(error), { cause: error })
}

/** Returns a message of the validation, which continues the name of a field, as a sentence. */
function sentence(message: string): string {
  return `${message.charAt(0).toUpperCase()}${message.slice(1)}${/[.!?]$/.test(message) ? '' : '.'}`
}
