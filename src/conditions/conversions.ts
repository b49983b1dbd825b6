import { SECOND_MS } from '../time/clock.js'
import { isInt, isTimestamp, type Value } from './values.js'

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
