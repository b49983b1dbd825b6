/** What registers a report. Its method of `analytics`, its route of the API and its command follow from that. */
import type Type from 'typebox'
import type { Static, TObject, TOptional, TProperties, TSchema, TString, TUnsafe } from 'typebox'
import type { Change } from '../rules/history/history.js'
import { type LogSnapshot, type Report, validateAtLeastOne } from './report.js'
import { type ReportWindow, toWindow, type WindowOptions } from './report-window.js'

/** The options that many reports have: the most rows, and the most events, beside the window. */
type CommonOptions = WindowOptions & Readonly<Partial<Record<'limit' | 'recent', number | undefined>>>
type Common = keyof CommonOptions
type ValidOptions = Readonly<Record<'limit' | 'recent', number>> & { readonly window: ReportWindow }

/** A report as tools ask for it. */
export interface AskedReport {
  /** The operation of the API: `getSummary` is `reports/summary`. `listRuleHits` is `reports/rule-hits`, a list, `rule_hits`. */
  readonly name: string
  readonly summary: string
  /** The length of the window in days, and the numbers, unless given. */
  readonly window?: number
  readonly limit?: number
  readonly recent?: number
  /** The schemas of the other options. */
  readonly options?: (fields: SchemaFields) => TProperties
  /** The schemas of the answer's fields, or of those of a row. */
  readonly answer: (fields: SchemaFields) => TProperties
  /** The fields of a row that tables and CSV have. */
  readonly columns?: readonly string[]
  create(options?: object): Report<unknown>
}

/** The fields of a type without `readonly`, as TypeBox has them. */
type Plain<Value> = Value extends readonly (infer Row)[]
  ? Plain<Row>[]
  : Value extends object
    ? { -readonly [Field in keyof Value]: Plain<Value[Field]> }
    : Value
type IsSame<One, Other> =
  (<T>() => T extends Plain<One> ? 1 : 2) extends <T>() => T extends Plain<Other> ? 1 : 2 ? true : false
type RowOf<Result> = Result extends readonly (infer Row)[] ? Row : Result
/** Demands a schema of each option, of its type. */
type ProvedOptions<Options, Query extends TProperties> = Record<Exclude<keyof Options, Common>, TSchema> &
  (Static<TObject<Query>> extends Omit<Options, Exclude<Common, keyof Query>> ? unknown : 'a schema has another type')
/** Demands that the fields and their schemas are the same. */
type ProvedAnswer<Row, Answer extends TProperties> = Record<keyof Row, TSchema> &
  (IsSame<Row, Static<TObject<Answer>>> extends true ? unknown : 'a schema has another type, or is of no field')
/** What options are unless given. */
type Defaults<Options> = {
  readonly [Name in keyof Options & ('limit' | 'recent')]: number
} & ('days' extends keyof Options ? { readonly window: number } : unknown)

/** Creates a report with its options; `asked` is what tools know of it. The schemas' types are proved, and not part of it. */
type RegisteredReport<Options, Result, Column> = ((options?: Options) => Report<Result>) & {
  readonly asked: AskedReport & { readonly columns?: readonly Column[] }
}

/**
 * Registers a report. Its schemas are proved against the types of its options and its answer, which are interfaces: their
 * fields have the docs that hosts read.
 *
 * @returns a function that creates the report, and throws InvalidSettingError for an invalid option
 */
export function report<Options extends CommonOptions, Result>() {
  return function register<
    Answer extends TProperties,
    Column extends keyof RowOf<Result> & string,
    Query extends TProperties = Record<never, TSchema>,
  >({
    read,
    ...asked
  }: {
    readonly name: Result extends readonly unknown[] ? `list${string}` : `get${string}`
    readonly summary: string
    readonly options?: (fields: SchemaFields) => Query & ProvedOptions<Options, Query>
    readonly answer: (fields: SchemaFields) => Answer & ProvedAnswer<RowOf<Result>, Answer>
    readonly columns?: readonly Column[]
    readonly read: (options: Options & ValidOptions, snapshot: LogSnapshot) => Promise<Result>
  } & Defaults<Options>): RegisteredReport<Options, Result, Column> {
    const normal: Partial<Record<'window' | 'limit' | 'recent', number>> = asked
    function create(options?: Options): Report<Result> {
      const { limit = normal.limit ?? 1, recent = normal.recent ?? 1, ...others }: CommonOptions = options ?? {}
      const { days, since, until } = others
      const window = toWindow({ days, since, until }, normal.window ?? 1)
      validateAtLeastOne('limit', limit)
      validateAtLeastOne('recent', recent)
      const valid = Object.assign({}, options, { window, limit, recent })
      return (snapshot) => read(valid, snapshot)
    }
    return Object.assign(create, { asked: { ...asked, create } })
  }
}

/**
 * Returns what the schemas of reports are made of. TypeBox is handed in: it takes a fifth of a second to load, and a host
 * that reads reports in code needs none of it.
 *
 * @param moment creates the schema of a moment in an address
 */
export function schemaFields(
  type: typeof Type,
  change: TUnsafe<Change>,
  moment: (description: string) => TOptional<TString>,
) {
  const [count, text, time] = [type.Integer(), type.String(), type.String({ format: 'date-time' })]
  const texts = <Name extends string>(...names: readonly Name[]) => alike(names, text)
  const counts = <Name extends string>(...names: readonly Name[]) => alike(names, count)
  return {
    type,
    change,
    moment,
    number: type.Number(),
    count,
    text,
    time,
    counts,
    texts,
    orNull: <Schema extends TSchema>(schema: Schema, description?: string) =>
      type.Union([schema, type.Null()], description === undefined ? {} : { description }),
    listOf: <Properties extends TProperties>(properties: Properties) => type.Array(type.Object(properties)),
    /** A text of an address. */
    spelling: (description: string) => type.String({ minLength: 1, maxLength: 255, description }),
    optional: (maxLength: number, description: string) => type.Optional(type.String({ maxLength, description })),
    coverage: {
      only_blocked: type.Optional(type.Literal(true, { description: 'The log has refusals only.' })),
      only_sums: type.Optional(type.Literal(true, { description: 'The log tells no clients of allowed requests.' })),
      log_since: type.Optional(
        type.String({
          format: 'date-time',
          description: 'Requests before this moment are in another database, and in no count.',
        }),
      ),
    },
    clientCounts: counts('requests', 'over_limit', 'would_be', 'denied'),
    rules: type.String({
      description:
        'The rules that applied, each with + or (refused) - before it, joined by colons; empty unless several did.',
    }),
    weight: type.Integer({ description: 'How many requests that are alike the event stands for.' }),
    event: {
      timestamp: time,
      ...texts('path', 'method'),
      allowed: type.Boolean(),
      ...counts('count', 'limit'),
      rule_name: text,
    },
  }
}
export type SchemaFields = ReturnType<typeof schemaFields>

function alike<Name extends string, Schema>(names: readonly Name[], schema: Schema) {
  return Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, Schema>
}
