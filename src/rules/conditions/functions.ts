import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { parseAddress, parseNetwork } from '../../clients/network.js'
import { errorMessage } from '../../ground/errors.js'
import { rememberClients } from '../../ground/remember.js'
import { compiledPattern, patternSize, validatePatternSyntax } from '../patterns/pattern.js'
import type { Expression } from './cel.js'
import type { ConditionFacts } from './condition-facts.js'
import { type ConditionFailure, errorAt } from './failure.js'
import { compileHas, compileMacro, MACROS } from './macros.js'
import { literalText } from './request.js'
import { type Evaluate, failureAt, type Scope } from './scope.js'
import { CONVERSIONS, elementsOf, MISSING, type Value } from './values.js'

type TextTest = (text: string, other: string, facts: ConditionFacts) => boolean

/** Methods of texts that answer true or false. */
const TESTS: Readonly<Record<string, TextTest>> = {
  startsWith(text, other, facts) {
    facts.takeText(Math.min(text.length, other.length), 1)
    return text.startsWith(other)
  },
  endsWith(text, other, facts) {
    facts.takeText(Math.min(text.length, other.length), 1)
    return text.endsWith(other)
  },
  contains(text, other, facts) {
    facts.takeText(text.length, 1)
    return containsText(text, other, facts)
  },
}

/** Methods of texts that answer a text. Only ASCII letters change, as in CEL. */
const TEXTS: Readonly<Record<string, (text: string) => string>> = {
  lowerAscii: (text) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()),
  upperAscii: (text) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase()),
  trim: trimWhiteSpace,
}
/** They take some 100 ns a character at worst. */
const TEXTS_WEIGHT = 8

export const FUNCTION_NAMES = 'has(), size(), inNetwork(), int(), double(), string(), bool() and timestamp()'
const METHOD_NAMES =
  'startsWith(), endsWith(), contains(), matches(), size(), lowerAscii(), upperAscii(), trim(), all(), exists(), exists_one(), map() and filter()'

/** Compiles a function, such as `size(request.path)`. */
export function compileFunction(node: Extract<Expression, { op: 'call' }>, scope: Scope): Evaluate {
  const [name, args] = node.args
  const [first, second] = args
  if (name === 'has') return compileHas(node, scope)
  if (name === 'matches' && first !== undefined) return compileMatches(node, first, second, scope)
  if (name === 'inNetwork' && first !== undefined) return compileInNetwork(node, first, second, scope)
  if (name === 'size' && first !== undefined) return compileSize(node, first, scope)
  const convert = Object.hasOwn(CONVERSIONS, name) ? CONVERSIONS[name] : undefined
  if (convert === undefined || first === undefined) {
    throw errorAt(node, `${name}() is no function of conditions: known are ${FUNCTION_NAMES}`)
  }
  const value = scope.compile(first, scope)
  const failure = failureAt(node, `${name}() cannot convert the value of this request`)
  return (facts) => {
    const given = value(facts)
    if (given === MISSING) return MISSING
    const converted = convert(given)
    if (converted === undefined) throw failure
    return converted
  }
}

/** Compiles a method, such as `request.path.startsWith('/api/')`. */
export function compileMethod(node: Extract<Expression, { op: 'rcall' }>, scope: Scope): Evaluate {
  const [name, receiver, args] = node.args
  if (MACROS.has(name)) return compileMacro(node, scope)
  if (name === 'matches') return compileMatches(node, receiver, args[0], scope)
  if (name === 'size') return compileSize(node, receiver, scope)
  const failure = failureAt(node, `${name}() needs a text`)
  const text = scope.compile(receiver, scope)
  const change = Object.hasOwn(TEXTS, name) ? TEXTS[name] : undefined
  if (change !== undefined) return onTexts(text, failure, MISSING, change, TEXTS_WEIGHT)
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined
  if (test === undefined || args[0] === undefined) {
    throw errorAt(node, `${name}() is no method of conditions: known are ${METHOD_NAMES}`)
  }
  const other = scope.compile(args[0], scope)
  return (facts) => {
    const value = text(facts)
    const given = other(facts)
    if (value === MISSING || given === MISSING) return false
    if (typeof value !== 'string' || typeof given !== 'string') throw failure
    return test(value, given, facts)
  }
}

/** The pattern is compiled now, so that a wrong one is refused, and by RE2, so that it takes linear time. */
function compileMatches(
  node: Expression,
  subject: Expression,
  argument: Expression | undefined,
  scope: Scope,
): Evaluate {
  const pattern = argument === undefined ? undefined : literalText(argument)
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
  const size = patternSize(pattern)
  // Kept here, since more patterns than are remembered would be compiled again for every request.
  let compiled: ReturnType<typeof compiledPattern> | undefined
  const search = (text: string) => {
    compiled ??= compiledPattern(pattern)
    return compiled.test(text)
  }
  return onTexts(scope.compile(subject, scope), failureAt(node, 'matches() needs a text'), false, search, size)
}

function compileInNetwork(
  node: Expression,
  address: Expression,
  argument: Expression | undefined,
  scope: Scope,
): Evaluate {
  const network = argument === undefined ? undefined : literalText(argument)
  if (network === undefined) {
    throw errorAt(argument ?? node, "the network of inNetwork() is a text in quotes, such as '10.0.0.0/8'")
  }
  try {
    const isInside = createNetworkTest(network)
    return onTexts(scope.compile(address, scope), failureAt(node, 'inNetwork() needs a text'), false, isInside)
  } catch (error) {
    throw errorAt(argument ?? node, errorMessage(error))
  }
}

function compileSize(node: Expression, of: Expression, scope: Scope): Evaluate {
  const value = scope.compile(of, scope)
  const failure = failureAt(node, 'size() needs a text, a list or a map')
  return (facts) => {
    const given = value(facts)
    if (given === MISSING) return MISSING
    if (typeof given === 'string') {
      facts.takeText(given.length, 1)
      return BigInt(codePoints(given))
    }
    const elements = elementsOf(given)
    if (elements === undefined) throw failure
    facts.takeList(elements.length)
    return BigInt(elements.length)
  }
}

/**
 * Compiles a function of one text.
 *
 * @param weight the work for each character
 */
function onTexts(
  text: Evaluate,
  failure: ConditionFailure,
  missing: typeof MISSING | false,
  apply: (text: string) => Value,
  weight = 1,
): Evaluate {
  return (facts) => {
    const value = text(facts)
    if (value === MISSING) return missing
    if (typeof value !== 'string') throw failure
    facts.takeText(value.length, weight)
    return apply(value)
  }
}

/** Trims white space as Unicode has it, unlike `trim()`. A regular expression for the end would take quadratic time. */
function trimWhiteSpace(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && WHITE_SPACE.test(text.charAt(start))) start++
  while (end > start && WHITE_SPACE.test(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

const WHITE_SPACE = /\p{White_Space}/u

function codePoints(text: string): number {
  let count = 0
  for (const _codePoint of text) count++
  return count
}

/** For shorter parts, and up to this product of lengths, the engine's search is quick, whatever the texts are. */
const SHORT = 8
const QUICK = 4_096

/** Returns whether a text contains another one, in linear time: the engine's search may take the product of lengths. */
function containsText(text: string, part: string, facts: ConditionFacts): boolean {
  if (part.length <= SHORT || text.length * part.length <= QUICK) return text.includes(part)
  facts.takeText(part.length, 1)
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

/** Longer than any address; clients may write longer texts into headers. */
const MAX_ADDRESS_LENGTH = 64

const readAddress = rememberClients((text) =>
  text.length > MAX_ADDRESS_LENGTH || isIP(text) === 0 ? undefined : parseAddress(text),
)

/**
 * Creates the function that returns whether a text is an address within a network. A text that is none is in no network.
 *
 * @throws Error whose message names the accepted forms
 */
function createNetworkTest(text: string): (address: string) => boolean {
  const { address, bits, family } = parseNetwork(text)
  const network = ipaddr.parse(address)
  return function isInside(asked) {
    const parsed = readAddress(asked)
    return parsed !== undefined && parsed.kind() === family && parsed.match(network, bits)
  }
}
