/** The description of a field that people write, once: how it is parsed, stored and explained. */
import { asText } from './storable.js'

/** The type of a field. A `moment` is an ISO text in a document, and milliseconds in a row that a statement reads. */
export type Kind = 'text' | 'boolean' | 'integer' | 'moment'

/** The description of one field of a row. */
export interface Field {
  readonly kind: Kind
  /** The value where none is given. A field without a default is required. */
  readonly default?: string | number | boolean | null
  /**
   * Parses a value: the only validation, for every way in which a row is written.
   *
   * @returns the value as servers use it
   * @throws Error whose message is shown beside the field
   */
  readonly parse: (value: unknown) => unknown
  /** Parses the stored spelling, where `parse` accepts others too: statements compare rows by that spelling only. */
  readonly parseStored?: (value: unknown) => unknown
  /** Returns the spelling in which a valid value is stored; without it the value is stored as given. */
  readonly spell?: (value: unknown) => string
  /**
   * Returns a text as `parse` takes it where a person typed it with other blanks or letters: `5 / min` is `5/min`. Forms
   * call it for a text that is wrong as it is.
   */
  readonly tidy?: (typed: string) => string
  /** Returns how to write what a wrong text seems to mean, for the message of a form; undefined where that is unknown. */
  readonly guess?: (typed: string) => string | undefined
  /** `false` for a field that servers do not read of the rows in force. */
  readonly enforced?: false
  /** The JSON Schema of the field besides the type and the default. */
  readonly schema?: Readonly<Record<string, unknown>>
  /** The meaning of the field, for the JSON Schema, and for the panel where `help` is absent. */
  readonly about: string
  readonly help?: string
  readonly panel: FieldInPanel
}

/** The presentation of a field in the panel. */
export interface FieldInPanel {
  readonly title: string
  /** The name of the field in a sentence of the history, where the title is no noun: `changed the start of …`. */
  readonly noun?: string
  readonly input: 'text' | 'lines' | 'code' | 'number' | 'boolean' | 'select' | 'methods' | 'key' | 'moment' | 'expiry'
  readonly example?: string
  /** The text beside a check box. */
  readonly label?: string
  readonly options?: readonly Choice[]
  /** The heading above the field in the form. */
  readonly group?: string
  /** The column that the list has for the field, and whether it can be sorted by that. */
  readonly column?: 'shown' | 'sorted'
  /** Whether the search of the list covers the field. */
  readonly searched?: true
}

export interface Choice {
  readonly value: string
  readonly label: string
}

/** Creates a parser that limits the length of what another one accepts. */
export function upTo<Parsed>(maxLength: number, parse: (text: string) => Parsed): (value: unknown) => Parsed {
  return function parseUpTo(value) {
    const parsed = parse(asText(value))
    if (asText(value).length > maxLength) throw new Error(`must be at most ${maxLength} characters long`)
    return parsed
  }
}

/** Returns what fields of integers have in common. */
export function integer(minimum: number, maximum: number) {
  function parse(value: unknown): number {
    if (typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum) return value
    throw new Error(`must be an integer between ${minimum} and ${maximum}`)
  }
  return { kind: 'integer', parse, schema: { minimum, maximum } } as const
}

function parseBoolean(value: unknown): boolean {
  if (typeof value !== 'boolean') throw new Error('must be true or false')
  return value
}

/** What fields that are true or false have in common. */
export const BOOLEAN = { kind: 'boolean', parse: parseBoolean } as const
