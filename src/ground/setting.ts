/** Describes a setting, once, and derives what follows from the description. */
import { inspect, types } from 'node:util'
import { VALIDATORS } from '../generated/validators.js'
import { errorMessage, InvalidSettingError } from './errors.js'
import { shortened } from './shortened.js'
import { doesNotExist } from './unknown-option.js'

/** The description of a setting. */
export interface Setting<Given = unknown> {
  /** Returns whether a value is one of those that `allowed` describes in messages. */
  readonly accepts: (value: unknown) => boolean
  readonly allowed: string
  /** The value where none is given. */
  readonly default?: Given
  /** Converts the text of an environment variable into a value. A text that it cannot convert stays as it is. */
  readonly read?: (text: string) => unknown
  /** Whether a function of the request may answer the value. It is not parsed. */
  readonly takesFunctions?: true
  /** `true` for a value that no message shows, such as a URL with a password or a token. */
  readonly isSecret?: true
  /**
   * Parses an accepted value.
   *
   * @param called the setting's name where it was given
   * @throws InvalidSettingError
   */
  parse?(value: Given, called: string): unknown
}

type HostFunction = (...given: never) => unknown

/** A description for every option. */
export type SettingTable<Options> = {
  readonly [Name in keyof Options]-?: Setting<Exclude<Options[Name], undefined>>
}

/** The value of every setting of a table. */
export type Resolved<Options, Table> = {
  readonly [Name in keyof Table & keyof Options]:
    | (Table[Name] extends { parse(value: never, called: string): infer Parsed }
        ? Parsed
        : Exclude<Options[Name], undefined>)
    | (Table[Name] extends { readonly takesFunctions: true } ? Extract<Options[Name], HostFunction> : never)
    | (Table[Name] extends { readonly default: unknown } ? never : Extract<Options[Name], undefined>)
}

export const FLAG = { ...VALIDATORS.flag, read: readFlag } as const

/** Creates a `parse` from a condition that a schema cannot express. */
export function ensure<Given>(holds: (value: Given) => boolean, complaint: string | ((value: Given) => string)) {
  return function ensured(value: Given, called: string): Given {
    if (holds(value)) return value
    const problem = typeof complaint === 'string' ? complaint : complaint(value)
    throw new InvalidSettingError(`Setting "${called}" ${problem}`)
  }
}

/** Creates a `parse` from a check that throws. */
export function validatedBy<Given>(check: (value: Given, called: string) => unknown) {
  return function checked(value: Given, called: string): Given {
    check(value, called)
    return value
  }
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

/** Reads JSON; any other text stays a text. */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export function readNumber(text: string): unknown {
  return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text
}

/** Splits a list at its commas. Empty entries, as after a trailing comma, are left out. */
export function readList(text: string): unknown {
  return text.split(',').flatMap((entry) => entry.trim() || [])
}

/** A setting with values of any type. */
export type AnySetting = Omit<Setting<never>, 'default'> & { readonly default?: unknown }

type AnyTable = Readonly<Record<string, AnySetting>>

/**
 * Validates settings.
 *
 * @param called returns a setting's name where it was given
 * @param counterparts what to give instead of settings that other packages have
 * @param isIgnored returns whether an unknown setting is for others
 * @throws InvalidSettingError for the first setting that is unknown, or that it does not accept
 */
export function validateSettings(
  table: AnyTable,
  options: object,
  called: (name: string) => string,
  counterparts?: ReadonlyMap<string, string>,
  isIgnored: (name: string) => boolean = () => false,
): void {
  // A promise has no entries, and would be taken for no settings at all.
  if (types.isPromise(options))
    throw new InvalidSettingError('The settings are a promise: await it, and give its result')
  for (const [name, value] of Object.entries(options)) {
    const setting = Object.hasOwn(table, name) ? table[name] : undefined
    if (setting === undefined) {
      if (isIgnored(name)) continue
      const counterpart = counterparts?.get(name)
      const problem =
        counterpart === undefined ? doesNotExist(name, Object.keys(table)) : `does not exist: give ${counterpart}`
      throw new InvalidSettingError(`Setting "${called(name)}" ${problem}`)
    }
    if (value !== undefined && (types.isPromise(value) || !setting.accepts(value))) {
      const shownValue = setting.isSecret ? 'not as it has to be' : shown(value)
      throw new InvalidSettingError(`Setting "${called(name)}" is ${shownValue}: give ${setting.allowed}`)
    }
  }
}

/**
 * Reads the settings of a table from environment variables. An empty variable counts as absent.
 *
 * @param variableFor returns the variable of an option; undefined where it has none
 */
export function readEnvironment(
  table: AnyTable,
  variableFor: (option: string) => string | undefined,
  environment: NodeJS.ProcessEnv,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(table).flatMap(([option, { read }]) => {
      const variable = variableFor(option)
      const text = variable === undefined ? undefined : environment[variable]?.trim()
      return text ? [[option, read === undefined ? text : read(text)]] : []
    }),
  )
}

/**
 * Parses settings that `validateSettings` accepts, with defaults for absent ones. Options of other tables are left out.
 *
 * @throws InvalidSettingError for the first invalid setting
 */
export function parseSettings<Options extends object, Table extends AnyTable>(
  table: Table,
  options: Options,
  called: (name: string) => string,
): Resolved<Options, Table> {
  const resolved = Object.entries(table).map(([name, setting]) => {
    const value: unknown = Reflect.get(options, name) ?? setting.default
    const isParsed = value !== undefined && !(setting.takesFunctions && typeof value === 'function')
    // `accepts` has proved the value's type.
    return [name, isParsed && setting.parse ? setting.parse(value as never, called(name)) : value]
  })
  // The value of a setting is the result of its own `parse`; the compiler cannot follow a loop over the table.
  return Object.fromEntries(resolved) as Resolved<Options, Table>
}

/** @throws InvalidSettingError with the message of what `read` throws */
export function explain<Answer>(setting: string, value: unknown, read: () => Answer): Answer {
  try {
    return read()
  } catch (error) {
    throw new InvalidSettingError(`Setting "${setting}" is ${shown(value)}: ${errorMessage(error)}`)
  }
}

/** Returns a value as a message quotes it, of a URL the scheme alone. */
export function shown(value: unknown): string {
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : inspect(value, { depth: 1, breakLength: Number.POSITIVE_INFINITY })
  const quoted = text.replace(/:\/\/.*/s, '://…')
  return shortened(quoted, 80)
}

export function withoutUndefined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Partial<T>
}
