import { types } from 'node:util'
import { currentFacts } from './condition-facts.js'
import { ConditionFailure } from './failure.js'

/**
 * A value in a condition: `int` is a bigint, `double` a number, a timestamp a Date, a list an array, and a map a Map.
 */
export type Value = string | bigint | number | boolean | null | object

const MAX_INT = 2n ** 63n - 1n
const MIN_INT = -(2n ** 63n)
/** Deeper lists are not read: a list of the host's may contain itself. */
const MAX_LIST_DEPTH = 16

const TOO_DEEP = new ConditionFailure('reads lists that are nested too deeply')

/** Returns a value of the host's as conditions see it; functions, symbols and undefined are missing. */
export function toValue(raw: unknown, depth = 0): Value | undefined {
  switch (typeof raw) {
    case 'string':
    case 'boolean':
      return raw
    case 'number':
      return Number.isSafeInteger(raw) ? BigInt(raw) : raw
    case 'bigint':
      return isInt(raw) ? raw : Number(raw)
    case 'object':
      return raw === null ? null : toCollection(raw, depth)
    default:
      return undefined
  }
}

function toCollection(raw: object, depth: number): Value {
  if (Array.isArray(raw)) return toList(raw, depth)
  if (raw instanceof Set) return toList([...raw], depth)
  if (raw instanceof Map)
    return new MapView(
      (key) => readEntry(raw, key),
      () => [...raw.keys()],
    )
  // A Date of another realm, such as that of a test runner, is no instance of this one's.
  if (types.isDate(raw)) return new Date(raw.getTime())
  return new MapView(
    (key) => readField(raw, key),
    () => Object.keys(raw),
  )
}

function toList(raw: readonly unknown[], depth: number): readonly Value[] {
  if (depth >= MAX_LIST_DEPTH) throw TOO_DEEP
  if (depth === 0) currentFacts().takeList(raw.length, 1, false)
  else currentFacts().take(raw.length)
  if (raw.every(isText)) return raw
  return raw.map((element) => toValue(element, depth + 1) ?? null)
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** Returns a field of the request's user; undefined where it is missing. */
export function readUserField(user: object | null, name: string): Value | undefined {
  return user === null ? undefined : toValue(readHostField(user, name))
}

/** Returns a field of an object of the host's as it is; undefined where it is missing. A getter may throw. */
export function readHostField(object: object, name: string): unknown {
  return object instanceof Map ? readEntry(object, name) : readField(object, name)
}

/**
 * Returns a field, an entry or an element of a value; undefined where it is missing.
 *
 * @throws `failure` where the value has none of this kind
 */
export function readMember(value: unknown, key: unknown, failure: ConditionFailure): unknown {
  if (value === null) return undefined
  if (value instanceof Map) return value.get(key)
  if (Array.isArray(value)) {
    const index = Number(key)
    if ((typeof key !== 'bigint' && typeof key !== 'number') || !Number.isInteger(index)) throw failure
    return value[index]
  }
  throw failure
}

/** Returns how many elements a macro goes through; 0 for what it refuses. */
export function countElements(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return value instanceof Map ? value.size : 0
}

/** Returns whether an integer has 64 bits at most. */
export function isInt(value: bigint): boolean {
  return value <= MAX_INT && value >= MIN_INT
}

function readEntry(map: ReadonlyMap<unknown, unknown>, key: unknown): unknown {
  return map.get(typeof key === 'bigint' && !map.has(key) ? Number(key) : key)
}

/**
 * Returns a field of an object of the host's: its own, or what a getter of its class answers. What every object
 * inherits, such as `constructor`, is no field.
 */
function readField(object: object, key: unknown): unknown {
  const name = typeof key === 'bigint' ? String(key) : key
  if (typeof name !== 'string') return undefined
  if (Object.hasOwn(object, name)) return Reflect.get(object, name)
  return name in Object.prototype ? undefined : Reflect.get(object, name)
}

/** A map whose entries are read when a condition asks for them. */
export class MapView extends Map<unknown, unknown> {
  readonly #read: (key: unknown) => unknown
  readonly #names: () => readonly unknown[]

  constructor(read: (key: unknown) => unknown, names: () => readonly unknown[]) {
    super()
    this.#read = read
    this.#names = names
  }

  override get(key: unknown): Value | undefined {
    return toValue(this.#read(key))
  }

  override has(key: unknown): boolean {
    return this.get(key) !== undefined
  }

  override get size(): number {
    return this.#names().length
  }

  override *keys(): MapIterator<unknown> {
    for (const name of this.#names()) yield toValue(name)
  }

  /** The library names the type of a map by its first entry, which a getter of the host's may answer: none is shown. */
  override *entries(): MapIterator<[unknown, unknown]> {}

  /** Maps are compared entry by entry, and may contain themselves. */
  override *[Symbol.iterator](): MapIterator<[unknown, unknown]> {
    const names = this.#names()
    currentFacts().take(names.length)
    for (const name of names) yield [toValue(name), this.get(name)]
  }
}

// The library tells types by the constructor.
Object.defineProperty(MapView.prototype, 'constructor', { value: Map })
