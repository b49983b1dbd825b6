/** Describes a table of rules or overrides, once, and derives what follows from the description. */

import { type Dialect, type SqlWork, selectedColumns } from '../database/dialect.js'
import { errorMessage, type FieldErrors, RuleValidationError } from '../ground/errors.js'
import type { Field, Kind } from '../ground/field.js'
import { parseMoment, validateStoredMoment } from './moment.js'

/** The fields of a table that can be given, in the order of documents. */
export type FieldTable = Readonly<Record<string, Field>>

/** The types of a value in a document, and in a row that a statement reads. SQLite has numbers for booleans. */
interface KindValues {
  readonly text: { document: string; column: string }
  readonly boolean: { document: boolean; column: boolean | number }
  readonly integer: { document: number; column: number }
  readonly moment: { document: string | null; column: number | null }
}

type Enforced<Table extends FieldTable> = {
  [Name in keyof Table]: Table[Name] extends { readonly enforced: false } ? never : Name
}[keyof Table]

/** A complete row of a document. */
export type Entry<Table extends FieldTable> = {
  readonly [Name in keyof Table]: Table[Name] extends { readonly schema: { readonly enum: readonly (infer Value)[] } }
    ? Value
    : KindValues[Table[Name]['kind']]['document']
}

/** A row as a statement reads it, as far as servers obey it. */
export type Row<Table extends FieldTable> = {
  readonly [Name in Enforced<Table>]: KindValues[Table[Name]['kind']]['column']
}

/** The parsed fields of a row, as servers use them. */
export type Parsed<Table extends FieldTable> = {
  readonly [Name in Enforced<Table>]: ReturnType<Table[Name]['parse']>
}

/** The description of a table whose rows documents list. */
export interface Description<
  Table extends FieldTable = FieldTable,
  Identity extends keyof Table & string = keyof Table & string,
> {
  readonly entity: 'rule' | 'override'
  /** The name of the list in a document. */
  readonly list: 'rules' | 'overrides'
  readonly table: string
  readonly fields: Table
  /** The fields that identify a row; texts. Messages name a row by the first of them. */
  readonly identity: readonly Identity[]
  identify(entry: Entry<Table>): Readonly<Pick<Entry<Table>, Identity>>
  /**
   * Validates the fields of a row.
   *
   * @param nowMs the time by which a row may have expired
   * @returns one message for every wrong field
   */
  errors(values: Values, extent: Extent, nowMs: number): FieldErrors
  /** Begins a change of the table, and returns a check of what the change leaves, which throws a RuleValidationError. */
  readonly watch?: (dialect: Dialect) => SqlWork<() => SqlWork<void>>
  /** The field that can be given instead of a stored one. */
  readonly shorthand?: Shorthand
  hasExpired(entry: Entry<Table>, nowMs: number): boolean
  /** Returns the order of a document, as SQL has it. */
  order(dialect: Pick<Dialect, 'bytewise'>): string
}

/** A field that can be given instead of a stored one, and never together with that. */
export interface Shorthand {
  readonly name: string
  readonly replaces: string
  /** Its JSON Schema. */
  readonly schema: object
  /**
   * Returns the value of the stored field.
   *
   * @throws Error whose message is shown beside the field
   */
  parse(value: unknown, nowMs: number): unknown
}

/** The unvalidated values of a row's fields. */
export type Values = Readonly<Record<string, unknown>>

/**
 * The part of a row to validate: a new row; a stored row as an update leaves it; or only the fields that an update
 * writes.
 */
export type Extent = 'new' | 'stored' | 'part'

/**
 * Parses fields.
 *
 * @param values an undefined value stays as it is, or takes its default
 * @returns the valid fields, those of a new row with their defaults, and one message for every wrong field
 */
export function parseFields<Table extends FieldTable>(fields: Table, values: Values, extent: Extent) {
  const errors: Record<string, string> = {}
  const parsed: Record<string, unknown> = {}
  for (const [name, field] of Object.entries(fields)) {
    const value = values[name] === undefined && extent === 'new' ? field.default : values[name]
    if (value === undefined) {
      if (extent !== 'part' && !('default' in field)) errors[name] = 'is required'
      continue
    }
    try {
      parsed[name] = field.parse(value)
    } catch (error) {
      errors[name] = errorMessage(error)
    }
  }
  // The value of a field is the result of its own `parse`; the compiler cannot follow a loop over the table.
  return { parsed: parsed as { readonly [Name in keyof Table]?: ReturnType<Table[Name]['parse']> }, errors }
}

/**
 * Replaces the shorthand of given values by the field that it stands for.
 *
 * @returns the values, and the message for a wrong shorthand
 */
export function expandShorthand(
  { shorthand }: Pick<Description, 'shorthand'>,
  values: Values,
  nowMs: number,
): { readonly values: Values; readonly errors: FieldErrors } {
  if (shorthand === undefined || values[shorthand.name] === undefined) return { values, errors: {} }
  const { [shorthand.name]: given, ...others } = values
  if (others[shorthand.replaces] !== undefined) {
    return { values: others, errors: { [shorthand.name]: `is given with "${shorthand.replaces}": give one of them` } }
  }
  try {
    return { values: { ...others, [shorthand.replaces]: shorthand.parse(given, nowMs) }, errors: {} }
  } catch (error) {
    return { values: others, errors: { [shorthand.name]: errorMessage(error) } }
  }
}

/** Returns the values of valid fields that are stored in another spelling than given. */
export function spelled(fields: FieldTable, values: Values): Record<string, string | null> {
  const present = Object.entries(fields).filter(([name]) => values[name] !== undefined)
  return Object.fromEntries(
    present.flatMap(([name, field]) => {
      if (field.kind === 'moment') return [[name, momentText(parseMoment(values[name]))]]
      return field.spell === undefined ? [] : [[name, field.spell(values[name])]]
    }),
  )
}

/** Returns the fields that values have; an undefined value stays as it is. */
export function givenFields(fields: FieldTable, values: Values): Values {
  const names = Object.keys(fields).filter((name) => values[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, values[name]]))
}

/** Returns them as they are stored. */
export function storedFields(fields: FieldTable, values: Values): Values {
  return { ...givenFields(fields, values), ...spelled(fields, values) }
}

function momentText(milliseconds: number | null): string | null {
  return milliseconds === null ? null : new Date(milliseconds).toISOString()
}

/** Returns the values of the fields that have a default. */
export function defaultsFor(fields: FieldTable): Values {
  return Object.fromEntries(
    Object.entries(fields).flatMap(([name, field]) => ('default' in field ? [[name, field.default]] : [])),
  )
}

/**
 * Creates a function that parses the enforced fields of a row, each once: there may be a hundred thousand rows.
 *
 * @param source a statement (`stored`), or any other source (`input`)
 * @returns a function that throws a RuleValidationError with a message for every wrong field
 */
export function createParser<Table extends FieldTable>(
  fields: Table,
  entity: Description['entity'],
  source: 'stored' | 'input',
): (values: Values) => Parsed<Table> {
  const readers = fieldEntries(fields).flatMap(([name, { kind, parse, parseStored = STORED[kind], enforced }]) => {
    return enforced === false ? [] : [[name, (source === 'stored' && parseStored) || parse] as const]
  })
  return function parseValues(values) {
    const parsed: Record<string, unknown> = {}
    let errors: Record<string, string> | undefined
    for (const [name, parse] of readers) {
      try {
        parsed[name] = parse(values[name])
      } catch (error) {
        errors ??= {}
        errors[name] = errorMessage(error)
      }
    }
    if (errors !== undefined) throw new RuleValidationError(errors, [], entity)
    // The value of a field is the result of its own `parse`; the compiler cannot follow a loop over the table.
    return parsed as Parsed<Table>
  }
}

/** Parsers for the kinds whose stored form differs from the given one. */
const STORED: Partial<Record<Kind, (value: unknown) => unknown>> = { boolean: Boolean, moment: validateStoredMoment }

/** Returns the names of the fields that servers read. */
export function enforcedFields<Table extends FieldTable>(fields: Table): Extract<Enforced<Table>, string>[] {
  return fieldNames(fields).filter((name): name is Extract<Enforced<Table>, string> => {
    return fields[name]?.enforced !== false
  })
}

/** Returns the columns of the enforced fields, as statements read them; see `selectedColumns`. */
export function enforcedColumns(fields: FieldTable, row?: string): string {
  return selectedColumns(enforcedFields(fields), row)
}

/** Returns the fields with their names, which `Object.entries` would type as any text. */
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

/** Returns the fields of the identity as one text. */
export function toIdentity<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  entry: Entry<Table>,
): string {
  return JSON.stringify(description.identify(entry))
}
