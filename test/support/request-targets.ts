/** Request targets as clients make them up: paths that are spelled in every way, and forms that no path has. */

/** The characters that a router may take for the first one of a path. */
const FIRST = [
  ...['*', 'x', 'L', '?', '#', ';', '%', '\\', '.', ':', '@', '~', '&', '=', '\xe9', '', '%2F', '%2f', '%25', '%61'],
  ...['%C4%B0', '%F0%9F%98%80', '%', '%6', '//', '*/'],
]
/** The texts that may stand before a path. */
const ORIGINS = [
  ...[
    'http://host',
    'HTTP://HOST:80',
    'https://a:b@host',
    'http://[::1]',
    'http://h\xe9',
    'http://host\\',
    'http://%61',
  ],
  ...[
    'http://',
    'http:///',
    'http:',
    'https:/',
    'ftp://host',
    'x:',
    'host.example:443',
    '//host',
    'http://host?',
    'http://host#',
  ],
]
const PIECES = [
  ...['%2F', '%2f', '%25', '%2525', '%', '%zz', '%00', '%ff', '%C4%B0', '%C3%A9', '%F0%9F%98%80', '%3F', '%23', '%3B'],
  ...['/', '//', ';', '?', '#', '\\', '.', '..', '/./', '/../', '\xe9', '&', '=', '+', '*', ':'],
]
const ENDINGS = ['/', '//', '?', '?a=/login', '?a#b', '#', '#x?y', ';', ';v=1', ';/?', '%2F', '%20', '%3F', '/.', '?#;']
/** Forms that have no path. */
const PATHLESS = [
  '*',
  '',
  '/',
  '//',
  'host.example:443',
  'http://host',
  'http://host?x',
  'http://host#x',
  '?',
  '#',
  ';',
  '%',
]
/** Characters that become one of ASCII, or more of them, in lower or in upper case. */
const LOOK_ALIKES: Readonly<Record<string, string>> = {
  i: '\u0130',
  I: '\u0130',
  k: '\u212a',
  s: '\u017f',
  ß: '\u1e9e',
}

/**
 * Makes up targets: mostly such that a router may take for one of the paths.
 *
 * @param random answers numbers from 0 to below 1
 */
export function createTargets(random: () => number, paths: readonly string[]): () => string {
  const pick = <Choice>(choices: readonly Choice[]): Choice => {
    const choice = choices[Math.floor(random() * choices.length)]
    if (choice === undefined) throw new Error('Nothing to choose from')
    return choice
  }
  const mapped = (text: string, chance: number, change: (character: string) => string) =>
    [...text].map((character) => (character !== '/' && random() < chance ? change(character) : character)).join('')
  const MUTATIONS: readonly ((path: string) => string)[] = [
    (path) => mapped(path, 0.3, escaped),
    (path) => mapped(path, 1, escaped),
    (path) => mapped(path, 0.5, (character) => (random() < 0.5 ? character.toUpperCase() : character.toLowerCase())),
    (path) => mapped(path, 0.5, (character) => LOOK_ALIKES[character] ?? character),
    (path) => path.replaceAll('/', () => '/'.repeat(1 + Math.floor(random() * 3))),
    (path) => path + pick(ENDINGS),
    (path) => path + pick(ENDINGS),
    (path) => pick(FIRST) + path.slice(1),
    (path) => pick(FIRST) + path.slice(1),
    (path) => String.fromCharCode(0x21 + Math.floor(random() * 0xde)) + path.slice(1),
    (path) => pick(FIRST) + path,
    (path) => pick(ORIGINS) + path,
    (path) => {
      const place = Math.floor(random() * (path.length + 1))
      return path.slice(0, place) + pick(PIECES) + path.slice(place)
    },
  ]

  return function target() {
    if (random() < 0.03) return pick(PATHLESS)
    let text = pick(paths)
    for (let times = Math.floor(random() * 4); times > 0; times--) text = pick(MUTATIONS)(text)
    return latin1(text)
  }

  function escaped(character: string): string {
    const bytes = [...Buffer.from(character)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
    return random() < 0.5 ? bytes : bytes.toUpperCase()
  }
}

/** Returns a target as Node.js hands it in: whatever is no character of latin1 can only be there escaped. */
function latin1(text: string): string {
  return text.replace(/[\u0100-\u{10ffff}]/gu, (character) => encodeURIComponent(character.toWellFormed()))
}
