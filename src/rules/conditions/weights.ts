/** The work that the parts of a condition make with the values that they contain. */
import { currentFacts } from './condition-facts.js'

/** The units for each character of a text, each element of a list, and each entry of a map. */
export interface Weights {
  readonly text: number
  readonly list: number
  readonly map: number
}

export const WEIGHTLESS: Weights = { text: 0, list: 0, map: 0 }

const TEXT: Weights = { ...WEIGHTLESS, text: 1 }
const EQUALITY: Weights = { ...WEIGHTLESS, list: 1, map: 1 }
/** The changes of texts take some 100 ns a character at worst. */
const CHANGE: Weights = { ...WEIGHTLESS, text: 8 }

const WEIGHTS: ReadonlyMap<string, Weights> = new Map([
  ...['==', '!='].map((name) => [name, EQUALITY] as const),
  ...['<', '<=', '>', '>=', 'int', 'double', 'bool', 'timestamp'].map((name) => [name, TEXT] as const),
  ...['startsWith', 'endsWith', 'contains', 'inNetwork', 'inList'].map((name) => [name, TEXT] as const),
  ...['lowerAscii', 'upperAscii', 'trim'].map((name) => [name, CHANGE] as const),
  ['in', { ...WEIGHTLESS, list: 1 }],
  ['+', { ...WEIGHTLESS, text: 1, list: 1 }],
  ['size', { ...WEIGHTLESS, text: 1, map: 1 }],
])

/** Returns the weights of what an operator or a function is given, by what surrounds that. */
export function weightsWithin(name: string, { text, list, map }: Weights): Weights {
  const weights = WEIGHTS.get(name) ?? WEIGHTLESS
  return { text: text + weights.text, list: list + weights.list, map: map + weights.map }
}

/**
 * Takes the work on a value that is read, before it is done.
 *
 * @throws TooMuchWork
 */
export function takeWorkOn<Value>(value: Value, { text, list, map }: Weights, inMacro: boolean): Value {
  if (typeof value === 'string') {
    if (text > 0) currentFacts().takeText(value.length, text, inMacro)
  } else if (Array.isArray(value)) {
    if (list > 0) currentFacts().takeList(value.length, list, inMacro)
  } else if (map > 0 && value instanceof Map) {
    currentFacts().takeList(value.size, map, inMacro)
  }
  return value
}
