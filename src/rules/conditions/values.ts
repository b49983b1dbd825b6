import { types } from 'node:util'
import { SECOND_MS } from '../../ground/time/clock.js'
import type { ConditionFacts } from './condition-facts.js'
import { ConditionFailure } from './failure.js'

/** A header, a parameter or a field that a request does not have. */
export const MISSING = Symbol('missing')

/**
 * A value in a condition: `int` is a bigint, `double` a number, a timestamp a Date, a list an array or a Set, and a map
 * a Map or an object of the host's.
 */
export type Value = string | bigint | number | boolean | null | object

export type Result = Value | typeof MISSING

/** Takes the work of comparing lists. */
export type Budget = Pick<ConditionFacts, 'takeList'>

const MAX_INT = 2n ** 63n - 1n
const MIN_INT = -(2n ** 63n)
/** Deeper lists are not compared: an object of the host's may contain itself. */
const MAX_COMPARED_DEPTH = 16

const NO_ENTRY = new ConditionFailure('compares maps whose keys cannot be compared')
const TOO_DEEP = new ConditionFailure('compares lists that are nested too deeply')

/** Returns a value of the host's as conditions see it; functions, symbols and undefined are missing. */
export function toValue(raw: unknown): Result {
  switch (typeof raw) {
    case 'string':
    case 'boolean':
      return raw
    case 'number':
      return Number.isSafeInteger(raw) ? BigInt(raw) : raw
    case 'bigint':
      return isInt(raw) ? raw : Number(raw)
    case 'object':
      return raw
    default:
      return MISSING
  }
}

/** Returns whether an integer has 64 bits at most. */
export function isInt(value: bigint): boolean {
  return value <= MAX_INT && value >= MIN_INT
}

/**
 * Returns a field, an entry or an element; MISSING where there is none.
 *
 * @throws `failure` where the value has no fields
 */
export function memberOf(value: Value, key: Value, failure: ConditionFailure): Result {
  if (value === null) return MISSING
  if (typeof value !== 'object' || isTimestamp(value)) throw failure
  if (Array.isArray(value)) {
    if (!isNumber(key) || !Number.isInteger(Number(key))) throw failure
    return toValue(value[Number(key)])
  }
  if (value instanceof Map) return toValue(value.get(typeof key === 'bigint' && !value.has(key) ? Number(key) : key))
  if (typeof key !== 'string' && typeof key !== 'bigint') throw failure
  return fieldOf(value, String(key))
}

/**
 * Returns a field of an object of the host's: its own, or what a getter of its class answers. What every object
 * inherits, such as `constructor`, is no field.
 */
function fieldOf(object: object, name: string): Result {
  if (Object.hasOwn(object, name)) return toValue(Reflect.get(object, name))
  if (name in Object.prototype || !(name in object)) return MISSING
  return toValue(Reflect.get(object, name))
}

/** Returns the keys that a macro goes through, or the elements of a list; undefined for other values. */
export function elementsOf(value: Value): readonly unknown[] | undefined {
  if (typeof value !== 'object' || value === null || isTimestamp(value)) return undefined
  if (Array.isArray(value)) return value
  if (value instanceof Set) return [...value]
  return value instanceof Map ? [...value.keys()] : Object.keys(value)
}

// A Date of another realm, such as that of a test runner, is no instance of this one's.
export function isTimestamp(value: Value): value is Date {
  return types.isDate(value)
}

/**
 * Returns whether two values are equal. Values of different types are not, except numbers of the same size. Lists, maps
 * and objects are equal where what they contain is.
 */
export function areEqual(a: Value, b: Value, budget: Budget, depth = 0): boolean {
  if (a === b) return true
  if (isNumber(a) && isNumber(b)) return typeof a !== typeof b && a >= b && a <= b
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (isTimestamp(a) && isTimestamp(b)) return a.getTime() === b.getTime()
  const [elements, others] = [elementsOf(a), elementsOf(b)]
  if (elements?.length !== others?.length || elements === undefined || isList(a) !== isList(b)) return false
  if (depth >= MAX_COMPARED_DEPTH) throw TOO_DEEP
  budget.takeList(elements.length)
  return elements.every((element, index) => {
    const left = isList(a) ? toValue(element) : entryOf(a, element)
    const right = isList(a) ? toValue(others?.[index]) : entryOf(b, element)
    return left !== MISSING && right !== MISSING && areEqual(left, right, budget, depth + 1)
  })
}

function isList(value: object): boolean {
  return Array.isArray(value) || value instanceof Set
}

function entryOf(map: object, key: unknown): Result {
  const name = toValue(key)
  return name === MISSING ? MISSING : memberOf(map, name, NO_ENTRY)
}

export function isNumber(value: Value): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint'
}

const INT = /^[+-]?\d{1,19}$/
const DOUBLE = /^[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:e[+-]?\d{1,4})?$/i
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/
const TRUE = ['1', 't', 'true', 'TRUE', 'True']
const FALSE = ['0', 'f', 'false', 'FALSE', 'False']

/** Functions that convert a value; undefined where they cannot. */
export const CONVERSIONS: Readonly<Record<string, (value: Value) => Value | undefined>> = {
  dyn: (value) => value,
  int: toInt,
  double: toDouble,
  string: toText,
  bool: toBoolean,
  timestamp: toTimestamp,
}

function toInt(value: Value): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'number') return Number.isFinite(value) ? asInt(BigInt(Math.trunc(value))) : undefined
  if (typeof value === 'string') return INT.test(value) ? asInt(BigInt(value.replace('+', ''))) : undefined
  return value !== null && isTimestamp(value) ? BigInt(Math.floor(value.getTime() / SECOND_MS)) : undefined
}

function asInt(value: bigint): bigint | undefined {
  return isInt(value) ? value : undefined
}

function toDouble(value: Value): number | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value)
  return typeof value === 'string' && DOUBLE.test(value) ? Number(value) : undefined
}

function toText(value: Value): string | undefined {
  if (typeof value !== 'object') return String(value)
  if (value === null || !isTimestamp(value) || Number.isNaN(value.getTime())) return undefined
  // The fraction only where there is one.
  return value.toISOString().replace(/\.?0*Z$/, 'Z')
}

function toBoolean(value: Value): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (typeof value !== 'string') return undefined
  return TRUE.includes(value) ? true : FALSE.includes(value) ? false : undefined
}

function toTimestamp(value: Value): Date | undefined {
  if (value !== null && isTimestamp(value)) return value
  const given = typeof value === 'bigint' ? Number(value) * SECOND_MS : value
  const isText = typeof given === 'string' && TIMESTAMP.test(given)
  const moment = new Date(isText || typeof given === 'number' ? given : Number.NaN)
  return Number.isNaN(moment.getTime()) ? undefined : moment
}
