/** Reads the arguments of a write in all forms that Prisma accepts. */
import type { Values } from '../../rules/description.js'

/** The values of a stored row, with its id. */
export interface StoredRow extends Values {
  readonly id: number | bigint
}

/** Returns the fields of one row, in the long form or the short one. */
export function toValues(data: unknown): Values {
  return typeof data === 'object' && data !== null ? Object.fromEntries(Object.entries(data)) : {}
}

/** Returns the condition of a write; all rows, where it has none. */
export function toWhere(args: object): object {
  const where: unknown = Reflect.get(args, 'where')
  return typeof where === 'object' && where !== null ? where : {}
}

/** Returns the fields without the long form; undefined where a value depends on a stored row that is not given. */
export function plainFields(data: Values, row?: StoredRow): Values {
  return Object.fromEntries(Object.entries(data).map(([field, value]) => [field, plainValue(value, row?.[field])]))
}

/** Returns the value of Prisma's long form of an update: `{ set: '5/m' }`, `{ increment: 1 }`. */
function plainValue(value: unknown, stored: unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof Date) return value
  // Prisma takes an undefined value for absent too.
  const [step, ...others] = Object.entries(value).filter(([, operand]) => operand !== undefined)
  const [operation, operand] = step ?? []
  if (others.length > 0) return value
  if (operation === 'set') return operand
  if (typeof operand !== 'number') return value
  if (typeof stored !== 'number') return undefined
  if (operation === 'increment') return stored + operand
  if (operation === 'decrement') return stored - operand
  if (operation === 'multiply') return stored * operand
  if (operation === 'divide') return Math.trunc(stored / operand)
  return value
}
