import type { RE2JS, RE2Set } from 're2js'
import { errorMessage } from '../../ground/errors.js'
import { loadModule } from '../../ground/package-root.js'
import { remember } from '../../ground/remember.js'
import { SHORT_PATH_LENGTH } from './work.js'

/** The most instructions that a pattern may compile to; more come from a counted repetition that should be a star. */
const MAX_PROGRAM_SIZE = 300
/** The number of valid patterns that are remembered; all are forgotten together beyond that. */
const REMEMBERED_SIZES = 20_000
/**
 * The number of compiled patterns that are remembered, of some 10 kB each: many rules share what follows their literal
 * beginning.
 */
const REMEMBERED_COMPILED = 1_000

/** Features of other engines that RE2 lacks: how the error's fragment begins, its name, and what to write instead. */
const UNSUPPORTED: readonly (readonly [fragment: string, name: string, remedy: string])[] = [
  ['(?=', 'look-ahead', 'write what has to follow as part of the pattern: ^/api/.*admin for ^/api/(?=.*admin)'],
  [
    '(?!',
    'negative look-ahead',
    'write two rules: one that matches the exception, with a higher priority, and one that matches the rest as well',
  ],
  ['(?<=', 'look-behind', 'write what has to come before as part of the pattern: /v1/items for (?<=/v1)/items'],
  [
    '(?<!',
    'negative look-behind',
    'write two rules: one that matches the exception, with a higher priority, and one that matches the rest as well',
  ],
  ['(?>', 'atomic group', 'write (?:…): RE2 never backtracks'],
  ['(?P', 'back-reference or recursion by name', 'spell out what may come twice: (?:a.*a|b.*b) for (a|b).*\\1'],
  ['\\k', 'back-reference', 'spell out what may come twice: (?:a.*a|b.*b) for (a|b).*\\1'],
  ['(?R', 'recursion', 'write the group out as often as it may be nested'],
  ['(?&', 'recursion', 'write the group out as often as it may be nested'],
  ['(?(', 'conditional', 'write the alternatives out: a|b'],
  ['(?|', 'branch reset', 'write (?:a|b)'],
  ['(?#', 'comment', "put it into the rule's description"],
  ['(?x', 'free-spacing flag', 'write the pattern without blanks and comments'],
  ['(?u', 'Unicode flag', 'leave it out: patterns are Unicode'],
  ["(?'", 'named group in quotes', 'write (?<name>…)'],
  ['\\Z', 'end before a newline', 'write $, which is the end of the path'],
  ['\\G', 'end of the last match', 'write ^, which is the beginning of the path'],
  ['\\K', 'reset of the match', 'leave it out: a pattern is only searched for'],
  ['\\h', 'horizontal space', 'write [ \\t]'],
  ['\\R', 'line break', 'write (?:\\r\\n|[\\n\\r])'],
  ['\\N', 'anything but a newline', 'write [^\\n]'],
  ['\\X', 'character with its marks', 'write \\PM\\pM*'],
  ['\\u', 'code unit', 'write \\x{…}: \\x{e9} for \\u00e9'],
  ['\\c', 'control character', 'write \\x and two digits: \\x01 for \\cA'],
  ['\\e', 'escape character', 'write \\x1b'],
]
const BACK_REFERENCE = /^\\[1-9]/
const DOTTED_I = '\u0130'
const ESCAPE_CLASS_OR_DOTTED_I = /\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\u0130/gs
const POSSESSIVE = /^(?:[*+?]|\{\d+(?:,\d*)?\})\+$/

/** Loads the engine, for which apps without patterns need not wait. */
function loadEngine(): typeof import('re2js') {
  return loadModule('re2js') as typeof import('re2js')
}

/** @throws Error for a pattern that RE2 cannot parse, or would match slowly on a long path */
export function validatePatternSyntax(pattern: string): void {
  const size = patternSize(pattern)
  if (size > MAX_PROGRAM_SIZE) {
    throw new Error(
      `compiles to ${size} instructions, more than ${MAX_PROGRAM_SIZE}, and would be slow on a long path: repeat less, or write * or + instead of a large count`,
    )
  }
}

/** Returns the number of instructions that a valid pattern compiles to. */
export const patternSize = remember(REMEMBERED_SIZES, (pattern) => compile(pattern).programSize())

/**
 * Compiles valid patterns into one automaton, which returns the indices of those that match.
 *
 * @param memory for the states of a DFA, in bytes; 8 MB by default. With 0 the engine simulates an NFA, which takes at
 * most some 15 ns for each instruction and character. A DFA is much faster where states repeat; where every character
 * leads to a new one it takes ten times as long as the NFA
 */
export function createAutomaton(patterns: readonly string[], caseSensitive: boolean, memory?: number): RE2Set {
  const { RE2JS, RE2Set } = loadEngine()
  const automaton = new RE2Set(RE2Set.UNANCHORED, caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE, memory)
  for (const pattern of patterns) automaton.add(pattern)
  automaton.compile()
  return automaton
}

/** A valid pattern, ready to be searched for. */
class CompiledPattern {
  readonly #pattern: string
  readonly #forShortTexts: RE2JS
  #forLongTexts: RE2Set | undefined

  constructor(pattern: string) {
    this.#pattern = pattern
    this.#forShortTexts = compile(pattern)
  }

  test(text: string): boolean {
    if (text.length <= SHORT_PATH_LENGTH) return this.#forShortTexts.test(text)
    this.#forLongTexts ??= createAutomaton([this.#pattern], true, 0)
    return this.#forLongTexts.match(text).length > 0
  }
}

/**
 * Returns a pattern as it is compiled for a router that ignores case and compares paths in lower case. RE2 folds every
 * letter as the router does except `İ`: in lower case it is two characters, which a class cannot hold.
 */
export function lowerCasedPattern(pattern: string): string {
  if (!pattern.includes(DOTTED_I)) return pattern
  return pattern.replace(ESCAPE_CLASS_OR_DOTTED_I, (text) => (text === DOTTED_I ? DOTTED_I.toLowerCase() : text))
}

/** Compiles a valid pattern, once for all rules that have it. */
export function compiledPattern(pattern: string, caseSensitive = true): CompiledPattern {
  return compileOnce(caseSensitive ? pattern : `(?i)${pattern}`)
}

const compileOnce = remember(REMEMBERED_COMPILED, (pattern) => new CompiledPattern(pattern))

function compile(pattern: string): RE2JS {
  try {
    return loadEngine().RE2JS.compile(pattern)
  } catch (error) {
    throw new Error(explanationFor(errorMessage(error).replace(/^error parsing regexp: /, '')))
  }
}

function explanationFor(message: string): string {
  const fragment = /`(.*)`$/s.exec(message)?.[1] ?? ''
  const syntax = UNSUPPORTED.find(([beginning]) => fragment.startsWith(beginning))
  if (syntax !== undefined) return unsupported(...syntax)
  const reference = BACK_REFERENCE.exec(fragment)?.[0]
  if (reference !== undefined) {
    return unsupported(reference, 'back-reference', 'spell out what may come twice: (?:a.*a|b.*b) for (a|b).*\\1')
  }
  if (POSSESSIVE.test(fragment)) {
    return unsupported(fragment, 'possessive quantifier', `write ${fragment.slice(0, -1)}: RE2 never backtracks`)
  }
  if (message.startsWith('invalid repeat count'))
    return `has an ${message}: a count is at most 1000, nested ones together`
  return `is not a valid regular expression: ${message}`
}

function unsupported(fragment: string, name: string, remedy: string): string {
  return `uses ${fragment} (${name}), which RE2 does not have, since it matches in linear time: ${remedy}`
}
