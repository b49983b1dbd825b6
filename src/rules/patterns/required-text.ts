/** The text that a path has to begin with for a pattern to match, as far as it is certain. */
export interface RequiredPrefix {
  readonly prefix: string
  /** Whether the prefix is in lower case, since the pattern ignores case. */
  readonly folded: boolean
  /** `prefix`: the pattern requires nothing else; `whole`: it also requires the path to end there. */
  readonly exactly: 'prefix' | 'whole' | null
  /** A pattern for the part after the prefix, where that can be matched alone: many rules have the same one. */
  readonly rest: string | null
}

const BEGINNING = /^(?<flag>\(\?i\))?\^(?<literal>(?:[\w/ !"#%&',:;<=>@`~-]|\\[/._~-])+)(?<rest>.*)$/s
/** Assertions about the character before, and text that may be one, since classes are not parsed here. */
const DEPENDS_ON_BEFORE = /\\[bBA[]|(?<!\[)\^/
/** Quoting and POSIX classes, which the search for alternatives does not parse. */
const UNREAD = /\\Q|\[:/

/**
 * Returns the text that a path has to begin with, for patterns of the form `^/literal…`; undefined where that is
 * uncertain: such a pattern is tried on every path.
 *
 * @param caseSensitive the router's option; a pattern may still contain `(?i)`
 */
export function requiredPrefix(pattern: string, caseSensitive: boolean): RequiredPrefix | undefined {
  const { flag, literal = '', rest = '' } = BEGINNING.exec(pattern)?.groups ?? {}
  if (literal === '' || UNREAD.test(pattern) || hasAlternatives(rest)) return undefined
  const folded = flag !== undefined || !caseSensitive
  // A quantifier after a flag applies to the last character, too: `^/a(?i)?`.
  const quantified = /^(?:[*?{+]|\(\?[a-zA-Z-]*\))/.test(rest)
  const certain = quantified ? literal.replace(/\\?.$/, '') : literal
  const text = certain.replaceAll('\\', '')
  if (text === '') return undefined
  const exactly = folded || quantified ? null : rest === '' ? 'prefix' : rest === '$' ? 'whole' : null
  const isApart = !folded && !quantified && !DEPENDS_ON_BEFORE.test(rest)
  return { prefix: folded ? text.toLowerCase() : text, folded, exactly, rest: isApart ? `^(?:${rest})` : null }
}

/** Returns a path in the spelling of folded prefixes: RE2 folds the long s and the Kelvin sign too. */
export function foldedPath(path: string): string {
  return path.toLowerCase().replaceAll('\u017f', 's').replaceAll('\u212a', 'k')
}

/** Returns whether a `|` is outside all groups, so that the pattern's beginning belongs to one alternative only. */
function hasAlternatives(rest: string): boolean {
  let depth = 0
  for (let position = 0; position < rest.length; position++) {
    const character = rest[position]
    if (character === '\\') position++
    else if (character === '[') position = endOfClass(rest, position)
    else if (character === '(') depth++
    else if (character === ')') depth--
    else if (character === '|' && depth === 0) return true
  }
  return false
}

function endOfClass(text: string, start: number): number {
  let position = start + 1
  if (text[position] === '^') position++
  // A bracket in first place is a member of the class.
  if (text[position] === ']') position++
  while (position < text.length && text[position] !== ']') position += text[position] === '\\' ? 2 : 1
  return position
}

const LITERAL = /[\w/ !"#%&',:;<=>@`~-]/
const ESCAPED_LITERAL = /[/._~-]/
/** Escapes of one letter that match one character of a class, or a position. */
const SIMPLE_ESCAPE = /[dDwWsSbBAz]/
const PLAIN_GROUP = /\((?!\?)|\(\?(?::|P?<)/y

/**
 * Returns texts that a path has to contain for a pattern to match, as far as they are certain.
 *
 * @param caseSensitive the router's option
 */
export function requiredTexts(pattern: string, caseSensitive: boolean): string[] {
  if (!caseSensitive || UNREAD.test(pattern) || hasAlternatives(pattern)) return []
  const texts: string[] = []
  let text = ''
  const end = (kept: string) => {
    if (kept !== '') texts.push(kept)
    text = ''
  }
  for (let position = 0; position < pattern.length; position++) {
    const character = pattern.charAt(position)
    if (LITERAL.test(character)) {
      text += character
    } else if (character === '\\') {
      const escaped = pattern.charAt(++position)
      if (ESCAPED_LITERAL.test(escaped)) text += escaped
      else if (SIMPLE_ESCAPE.test(escaped)) end(text)
      else return []
    } else if (character === '*' || character === '?') {
      end(text.slice(0, -1))
    } else if (character === '{') {
      // A brace may begin a count, or be a literal.
      end(text.slice(0, -1))
      return texts
    } else if (character === '[') {
      end(text)
      position = endOfClass(pattern, position)
    } else if (character === '(') {
      PLAIN_GROUP.lastIndex = position
      if (!PLAIN_GROUP.test(pattern)) return []
      end(text)
      position = endOfGroup(pattern, position)
    } else {
      end(text)
    }
  }
  end(text)
  return texts
}

function endOfGroup(text: string, start: number): number {
  let depth = 0
  for (let position = start; position < text.length; position++) {
    const character = text[position]
    if (character === '\\') position++
    else if (character === '[') position = endOfClass(text, position)
    else if (character === '(') depth++
    else if (character === ')' && --depth === 0) return position
  }
  return text.length
}
