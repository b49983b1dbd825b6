import { inspect } from 'node:util'
import { InvalidSettingError, messageOf } from './errors.js'
import { Check, Type } from './generated/typebox.js'

export const Flag = Type.Boolean()
export const Callback = Type.Function([], Type.Unknown())

/** What values each setting may have, and how that is said. */
export type Fields = Readonly<Record<string, readonly [schema: Type.TSchema, allowed: string]>>

/** Settings whose values no message shows: the URLs have passwords and tokens in them. */
const IS_SECRET = /secret|webhook$|smtpUrl|routingKey/i

/** @param called what a setting is called where it was given */
export function checkFields(given: object, fields: Fields, called: (name: string) => string): void {
  for (const [name, value] of Object.entries(given)) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (field === undefined) {
      const known = Object.keys(fields).join(', ')
      throw new InvalidSettingError(`Setting "${called(name)}" does not exist: known are ${known}`)
    }
    const [schema, allowed] = field
    if (value !== undefined && !Check(schema, value)) {
      const its = IS_SECRET.test(name) ? 'not as it has to be' : shown(value)
      throw new InvalidSettingError(`Setting "${called(name)}" is ${its}: give ${allowed}`)
    }
  }
}

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
