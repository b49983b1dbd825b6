/** How a table of rules or overrides is described, once, and what follows from its description. */
import { selectedColumns } from '../db/columns.js'
import { type FieldErrors, messageOf, RuleValidationError } from '../errors.js'
import { checkStoredMoment, parseMoment } from './field-checks.js'

/** How a field is stored. A `moment` is an ISO text in a document, and milliseconds in a row that a statement reads. */
export type Kind = 'text' | 'boolean' | 'integer' | 'moment'

/** All that is known about one field of a row. */
export interface Field {
  readonly kind: Kind
  /** What a row has where nothing is given. A field without a default is required. */
  readonly default?: string | number | boolean | null
  /**
   * Reads a value: the only validation there is, whichever door a row comes through.
   *
   * @returns what the value means to servers
   * @throws Error whose message goes beside the field
   */
  readonly parse: (value: unknown) => unknown
  /** The one spelling in which a right value is stored; unless given, as it is. */
  readonly spell?: (value: unknown) => string
  /** `false` for what servers do not read of the rows in force. */
  readonly enforced?: false
  /** What its JSON Schema says besides the kind and the default. */
  readonly schema?: Readonly<Record<string, unknown>>
  /** What it means, in the JSON Schema, and in the panel where there is no help for that. */
  readonly about: string
  readonly help?: string
  readonly panel: FieldInPanel
}

/** How a field is shown and edited in the panel. */
export interface FieldInPanel {
  readonly title: string
  readonly input: 'text' | 'lines' | 'code' | 'number' | 'boolean' | 'select' | 'methods' | 'key' | 'moment'
  readonly example?: string
  /** Beside a box to tick. */
  readonly label?: string
  readonly options?: readonly Choice[]
  /** The heading of the form that the field stands under. */
  readonly group?: string
  /** Whether the list has a column for it, and can be sorted by that. */
  readonly column?: 'shown' | 'sorted'
  /** Whether the list's search looks into it. */
  readonly searched?: true
}

export interface Choice {
  readonly value: string
  readonly label: string
}

/** The fields of a table that are given, in the order of documents. */
export type FieldTable = Readonly<Record<string, Field>>

/** What a value is in a document, and in a row that a statement reads. SQLite has numbers for booleans. */
interface KindValues {
  readonly text: { document: string; column: string }
  readonly boolean: { document: boolean; column: boolean | number }
  readonly integer: { document: number; column: number }
  readonly moment: { document: string | null; column: number | null }
}

type Enforced<Table extends FieldTable> = {
  [Name in keyof Table]: Table[Name] extends { readonly enforced: false } ? never : Name
}[keyof Table]

/** A row of a document, complete. */
export type Entry<Table extends FieldTable> = {
  readonly [Name in keyof Table]: Table[Name] extends { readonly schema: { readonly enum: readonly (infer Value)[] } }
    ? Value
    : KindValues[Table[Name]['kind']]['document']
}

/** A row as a statement reads it, as far as servers obey it. */
export type Row<Table extends FieldTable> = {
  readonly [Name in Enforced<Table>]: KindValues[Table[Name]['kind']]['column']
}

/** What the fields of a row mean to servers. */
export type Parsed<Table extends FieldTable> = {
  readonly [Name in Enforced<Table>]: ReturnType<Table[Name]['parse']>
}

/** A table of which documents have a list. */
export interface Description<
  Table extends FieldTable = FieldTable,
  Identity extends keyof Table & string = keyof Table & string,
> {
  readonly entity: 'rule' | 'override'
  /** The list of a document. */
  readonly place: 'rules' | 'overrides'
  readonly table: string
  readonly fields: Table
  /** The fields by which a row is found again; texts. The first of them is what messages call it. */
  readonly identity: readonly Identity[]
  identify(entry: Entry<Table>): Readonly<Pick<Entry<Table>, Identity>>
  /**
   * @param nowMs what expires has expired by then
   * @returns one message for every wrong field
   */
  errors(values: Values, extent: Extent, nowMs: number): FieldErrors
  hasExpired(entry: Entry<Table>, nowMs: number): boolean
  /** The order of an export. */
  order(a: Entry<Table>, b: Entry<Table>): number
}

/** The values of a row's fields, as somebody gives them: nothing is known about them. */
export type Values = Readonly<Record<string, unknown>>

/**
 * How much of a row there is to check: a new one; a stored one as an update leaves it; or only the fields that an
 * update writes.
 */
export type Extent = 'new' | 'stored' | 'part'

/**
 * @param values one that is undefined stays as it is, or takes its default
 * @returns one message for every wrong field
 */
export function fieldErrors(fields: FieldTable, values: Values, extent: Extent): FieldErrors {
  const errors: Record<string, string> = {}
  for (const [name, field] of Object.entries(fields)) {
    const value = values[name]
    if (value === undefined) {
      if (extent !== 'part' && !('default' in field)) errors[name] = 'is required'
      continue
    }
    try {
      field.parse(value)
    } catch (error) {
      errors[name] = messageOf(error)
    }
  }
  return errors
}

/** What has to be written otherwise than given, of fields that are right. */
export function spelled(fields: FieldTable, values: Values): Record<string, string | null> {
  const given = Object.entries(fields).filter(([name]) => values[name] !== undefined)
  return Object.fromEntries(
    given.flatMap(([name, field]) => {
      if (field.kind === 'moment') return [[name, momentText(parseMoment(values[name]))]]
      return field.spell === undefined ? [] : [[name, field.spell(values[name])]]
    }),
  )
}

function momentText(milliseconds: number | null): string | null {
  return milliseconds === null ? null : new Date(milliseconds).toISOString()
}

/** The values of the fields that may be left out. */
export function defaultsOf(fields: FieldTable): Values {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => ('default' in field ? [[name, field.default]] : [])),
  )
}

/**
 * Makes a function that reads a row as far as servers obey it, each field once: there may be a hundred thousand rows.
 *
 * @param source a statement, or what was given in another way
 * @returns a function that throws a RuleValidationError with a message for every wrong field
 */
export function createParser<Table extends FieldTable>(
  fields: Table,
  entity: Description['entity'],
  source: 'stored' | 'given',
): (values: Values) => Parsed<Table> {
  const readers = fieldEntries(fields).flatMap(([name, { kind, parse, enforced }]) => {
    return enforced === false ? [] : [[name, (source === 'stored' && STORED[kind]) || parse] as const]
  })
  return function parseValues(values) {
    const parsed: Record<string, unknown> = {}
    let errors: Record<string, string> | undefined
    for (const [name, parse] of readers) {
      try {
        parsed[name] = parse(values[name])
      } catch (error) {
        errors ??= {}
        errors[name] = messageOf(error)
      }
    }
    if (errors !== undefined) throw new RuleValidationError(errors, [], entity)
    // A loop over the table gave each of its fields what its own `parse` answers, which no type can follow.
    return parsed as Parsed<Table>
  }
}

/** What statements read otherwise than it is given. */
const STORED: Partial<Record<Kind, (value: unknown) => unknown>> = { boolean: Boolean, moment: checkStoredMoment }

/** The fields that servers obey. */
export function enforcedFields<Table extends FieldTable>(fields: Table): Extract<Enforced<Table>, string>[] {
  return fieldNames(fields).filter((name): name is Extract<Enforced<Table>, string> => {
    return fields[name]?.enforced !== false
  })
}

/** The columns of what servers obey, as statements read them; see `selectedColumns`. */
export function enforcedColumns(fields: FieldTable, row?: string): string {
  return selectedColumns(enforcedFields(fields), row)
}

/** The fields with their names, of which `Object.entries` knows only that they are texts. */
export function fieldEntries<Table extends FieldTable>(fields: Table): [Extract<keyof Table, string>, Field][] {
  return fieldNames(fields).flatMap((name) => {
    const field = fields[name]
    return field === undefined ? [] : [[name, field]]
  })
}

export function fieldNames<Table extends object>(fields: Table): Extract<keyof Table, string>[] {
  const names: Extract<keyof Table, string>[] = []
  for (const name in fields) names.push(name)
  return names
}

/** The fields of the identity as one text. */
export function identityOf<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  entry: Entry<Table>,
): string {
  return JSON.stringify(description.identify(entry))
}

/** The same order everywhere, whatever the language of the machine. */
export function compareTexts(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
