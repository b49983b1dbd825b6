/**
 * The functions of conditions: their names, and replacements for those that the library lacks, or whose evaluation would
 * take too long or answer otherwise than CEL.
 */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { LIST_NAME, LIST_NAME_ALLOWED } from '../../clients/named-lists.js'
import { parseAddress, parseNetwork } from '../../clients/network.js'
import { errorMessage } from '../../ground/errors.js'
import { rememberClients } from '../../ground/remember.js'
import { SECOND_MS } from '../../ground/time/clock.js'
import { compiledPattern, patternSize, validatePatternSyntax } from '../patterns/pattern.js'
import type { Expression } from './cel.js'
import { currentFacts } from './condition-facts.js'
import { errorAt } from './failure.js'
import { isInt, type Value } from './values.js'

export const FUNCTION_NAMES = 'has(), size(), inNetwork(), inList(), int(), double(), string(), bool() and timestamp()'
export const METHOD_NAMES =
  'startsWith(), endsWith(), contains(), matches(), size(), lowerAscii(), upperAscii(), trim(), all(), exists(), exists_one(), map() and filter()'

/** Functions that the library evaluates. */
export const LIBRARY_FUNCTIONS = ['size', 'string', 'bool', 'dyn']
/** The macros that go through a list, or the keys of a map. */
export const MACROS = ['all', 'exists', 'exists_one', 'map', 'filter']

/** Answers instead of a function of the library's; undefined where it cannot for these values. */
export type Replacement = (value: unknown, other: unknown) => Value | undefined

/** Methods of texts. Only ASCII letters change, as in CEL. */
export const METHODS: Readonly<Record<string, Replacement>> = {
  startsWith: onTexts((text, other) => text.startsWith(other)),
  endsWith: onTexts((text, other) => text.endsWith(other)),
  contains: onTexts(containsText),
  lowerAscii: onText((text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())),
  upperAscii: onText((text) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase())),
  trim: onText(trimWhiteSpace),
}

/** Functions that convert a value. */
export const CONVERSIONS: Readonly<Record<string, Replacement>> = {
  int: toInt,
  double: toDouble,
  timestamp: toTimestamp,
}

function onText(apply: (text: string) => Value): Replacement {
  return (text) => (typeof text === 'string' ? apply(text) : undefined)
}

function onTexts(apply: (text: string, other: string) => Value): Replacement {
  return (text, other) => (typeof text === 'string' && typeof other === 'string' ? apply(text, other) : undefined)
}

/** Trims white space as Unicode has it, unlike `trim()`. A regular expression for the end would take quadratic time. */
function trimWhiteSpace(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start++
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

const WHITE_SPACE = /\p{White_Space}/u

const INT = /^[+-]?\d{1,19}$/
const DOUBLE = /^[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:e[+-]?\d{1,4})?$/i
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/

function toInt(value: unknown): bigint | undefined {
  if (typeof value === 'bigint') return value
  if (typeof value === 'number') return Number.isFinite(value) ? asInt(BigInt(Math.trunc(value))) : undefined
  if (typeof value === 'string') return INT.test(value) ? asInt(BigInt(value.replace('+', ''))) : undefined
  return value instanceof Date ? BigInt(Math.floor(value.getTime() / SECOND_MS)) : undefined
}

function asInt(value: bigint): bigint | undefined {
  return isInt(value) ? value : undefined
}

function toDouble(value: unknown): number | undefined {
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value)
  return typeof value === 'string' && DOUBLE.test(value) ? Number(value) : undefined
}

function toTimestamp(value: unknown): Date | undefined {
  if (value instanceof Date) return value
  if (typeof value !== 'bigint' && !(typeof value === 'string' && TIMESTAMP.test(value))) return undefined
  const moment = new Date(typeof value === 'bigint' ? Number(value) * SECOND_MS : value)
  return Number.isNaN(moment.getTime()) ? undefined : moment
}

/**
 * Creates the search for the pattern of `matches()`, by RE2, so that it takes linear time. A wrong pattern is refused
 * when the condition is compiled.
 *
 * @returns the search, and the units that it takes for each character
 * @throws Error that names what is wrong
 */
export function createPatternSearch(
  node: Expression,
  argument: Expression | undefined,
): { readonly search: Replacement; readonly size: number } {
  const pattern = literalText(argument)
  if (pattern === undefined) {
    throw errorAt(
      argument ?? node,
      'the pattern of matches() is a text in quotes: it is compiled when the rule is saved',
    )
  }
  try {
    validatePatternSyntax(pattern)
  } catch (error) {
    throw errorAt(argument ?? node, `the pattern ${errorMessage(error)}`)
  }
  // The pattern is kept here, since more than are remembered would be compiled again for every request.
  let compiled: ReturnType<typeof compiledPattern> | undefined
  return {
    size: patternSize(pattern),
    search: onText((text) => {
      compiled ??= compiledPattern(pattern)
      return compiled.test(text)
    }),
  }
}

/** The length is more than that of any address; clients may write longer texts into headers. */
const MAX_ADDRESS_LENGTH = 64

const readAddress = rememberClients((text) =>
  text.length > MAX_ADDRESS_LENGTH || isIP(text) === 0 ? undefined : parseAddress(text),
)

/**
 * Creates the function that returns whether a text is an address within a network. A text that is none is in no network.
 *
 * @throws Error whose message names the accepted forms
 */
export function createNetworkTest(node: Expression, argument: Expression | undefined): Replacement {
  const text = literalText(argument)
  if (text === undefined) {
    throw errorAt(argument ?? node, "the network of inNetwork() is a text in quotes, such as '10.0.0.0/8'")
  }
  try {
    const { address, bits, family } = parseNetwork(text)
    const network = ipaddr.parse(address)
    return onText((candidate) => {
      const parsed = readAddress(candidate)
      return parsed !== undefined && parsed.kind() === family && parsed.match(network, bits)
    })
  } catch (error) {
    throw errorAt(argument ?? node, errorMessage(error))
  }
}

/**
 * Creates the function that returns whether a text is an address of a named list. Which lists there are is up to the app.
 *
 * @throws Error where no list can have the name
 */
export function createListTest(
  node: Expression,
  argument: Expression | undefined,
): { readonly name: string; readonly test: Replacement } {
  const name = literalText(argument)
  if (name === undefined || !LIST_NAME.test(name)) {
    throw errorAt(argument ?? node, `the list of inList() is its name in quotes, such as 'tor': ${LIST_NAME_ALLOWED}`)
  }
  return { name, test: onText((candidate) => currentFacts().isListed(name, candidate)) }
}

export function literalText(node: Expression | undefined): string | undefined {
  return node?.op === 'value' && typeof node.args === 'string' ? node.args : undefined
}

/** The engine's search is quick for shorter parts, and up to this product of lengths, whatever the texts are. */
const SHORT = 8
const QUICK = 4_096

/** Returns whether a text contains another one, in linear time: the engine's search may take the product of lengths. */
function containsText(text: string, part: string): boolean {
  if (part.length <= SHORT || text.length * part.length <= QUICK) return text.includes(part)
  return part.length <= text.length && searchLinearly(text, part)
}

/** Searches as Knuth, Morris and Pratt do (1977): no character of the text is looked at again. */
function searchLinearly(text: string, part: string): boolean {
  const borders = new Uint32Array(part.length)
  for (let index = 1, length = 0; index < part.length; index++) {
    while (length > 0 && part[index] !== part[length]) length = borders[length - 1] ?? 0
    if (part[index] === part[length]) length++
    borders[index] = length
  }
  let matched = 0
  for (let index = 0; index < text.length; index++) {
    while (matched > 0 && text[index] !== part[matched]) matched = borders[matched - 1] ?? 0
    if (text[index] === part[matched]) matched++
    if (matched === part.length) return true
  }
  return false
}
