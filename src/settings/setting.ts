/** How a setting is described, once, and what follows from its description. */
import { inspect } from 'node:util'
import { InvalidSettingError, messageOf } from '../errors.js'
import { Check, Type } from '../generated/typebox.js'

/** All that is known about a setting. */
export interface Setting<Given = unknown> {
  /** What values there are, and how a message says that. */
  readonly schema: Type.TSchema
  readonly allowed: string
  /** What is used where nothing is given. */
  readonly default?: Given
  /** The environment variable that is used where the option is absent, and what the help of commands says about it. */
  readonly variable?: string
  readonly help?: string
  /** Makes a value of the variable's text. A text that cannot be read is left as it is, and refused by the schema. */
  readonly read?: (text: string) => unknown
  /** `true` for what no message shows: the URLs have passwords and tokens in them. */
  readonly isSecret?: true
  /**
   * Reads what the schema lets through.
   *
   * @param called what the setting is called where it was given
   * @throws InvalidSettingError
   */
  parse?(value: Given, called: string): unknown
}

/** A setting for every option. */
export type SettingTable<Options> = {
  readonly [Name in keyof Options]-?: Setting<Exclude<Options[Name], undefined>>
}

/** The value of every setting of a table. */
export type Resolved<Options, Table> = {
  readonly [Name in keyof Table & keyof Options]:
    | (Table[Name] extends { parse(value: never, called: string): infer Parsed }
        ? Parsed
        : Exclude<Options[Name], undefined>)
    | (Table[Name] extends { readonly default: unknown } ? never : Extract<Options[Name], undefined>)
}

export const Callback = Type.Function([], Type.Unknown())
export const Reference = Type.Object({})

export const FLAG = { schema: Type.Boolean(), allowed: 'true or false', read: readFlag } as const

/** Makes a `parse` of what a schema cannot say. */
export function ensure<Given>(holds: (value: Given) => boolean, complaint: string | ((value: Given) => string)) {
  return function ensured(value: Given, called: string): Given {
    if (holds(value)) return value
    const problem = typeof complaint === 'string' ? complaint : complaint(value)
    throw new InvalidSettingError(`Setting "${called}" ${problem}`)
  }
}

/** Makes a `parse` of a check that throws. */
export function checkedBy<Given>(check: (value: Given, called: string) => unknown) {
  return function checked(value: Given, called: string): Given {
    check(value, called)
    return value
  }
}

/** A setting of texts of which there are only these. */
export function oneOf(values: readonly string[]) {
  return { schema: Type.Enum([...values]), allowed: values.join(', ') }
}

/** A setting of an integer. */
export function integerFrom(minimum: number, maximum: number, unit = 'an integer') {
  return { schema: Type.Integer({ minimum, maximum }), allowed: `${unit}, ${minimum} to ${maximum}` }
}

/** A setting of a number. */
export function numberFrom(minimum: number, maximum: number, unit: string) {
  return { schema: Type.Number({ minimum, maximum }), allowed: `${unit}, ${minimum} to ${maximum}`, read: readNumber }
}

const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['1', true],
  ['yes', true],
  ['on', true],
  ['false', false],
  ['0', false],
  ['no', false],
  ['off', false],
])

export function readFlag(text: string): unknown {
  return FLAGS.get(text.toLowerCase()) ?? text
}

export function readNumber(text: string): unknown {
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}

/** Empty places, as after a comma at the end, count for nothing. */
export function readList(text: string): unknown {
  return text.split(',').flatMap((entry) => entry.trim() || [])
}

/** A setting of whatever values. */
export type AnySetting = Omit<Setting<never>, 'default'> & { readonly default?: unknown }

type AnyTable = Readonly<Record<string, AnySetting>>

/**
 * @param called what a setting is called where it was given
 * @throws InvalidSettingError for the first one that is unknown, or that its schema refuses
 */
export function checkSettings(table: AnyTable, given: object, called: (name: string) => string): void {
  for (const [name, value] of Object.entries(given)) {
    const setting = Object.hasOwn(table, name) ? table[name] : undefined
    if (setting === undefined) {
      const known = Object.keys(table).join(', ')
      throw new InvalidSettingError(`Setting "${called(name)}" does not exist: known are ${known}`)
    }
    if (value !== undefined && !Check(setting.schema, value)) {
      const its = setting.isSecret ? 'not as it has to be' : shown(value)
      throw new InvalidSettingError(`Setting "${called(name)}" is ${its}: give ${setting.allowed}`)
    }
  }
}

/**
 * Reads what `checkSettings` lets through, and takes the defaults for the rest. Options of other tables are left out.
 *
 * @throws InvalidSettingError for the first one that is wrong
 */
export function parseSettings<Options extends object, Table extends AnyTable>(
  table: Table,
  given: Options,
  called: (name: string) => string,
): Resolved<Options, Table> {
  const resolved = Object.entries(table).map(([name, setting]) => {
    const value: unknown = Reflect.get(given, name) ?? setting.default
    const isParsed = value !== undefined && setting.parse !== undefined
    // The schema let it through.
    return [name, isParsed ? setting.parse?.(value as never, called(name)) : value]
  })
  // A loop over the table gave each of its settings what its own `parse` answers, which no type can follow.
  return Object.fromEntries(resolved) as Resolved<Options, Table>
}

/** @throws InvalidSettingError with the message of what `read` throws */
export function explain<Answer>(setting: string, value: unknown, read: () => Answer): Answer {
  try {
    return read()
  } catch (error) {
    throw new InvalidSettingError(`Setting "${setting}" is ${shown(value)}: ${messageOf(error)}`)
  }
}

/** A value as a message quotes it. */
export function shown(value: unknown): string {
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : inspect(value, { depth: 1, breakLength: Number.POSITIVE_INFINITY })
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}

export function withoutUndefined<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Partial<T>
}
