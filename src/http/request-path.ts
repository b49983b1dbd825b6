import type { FastifyInstance, FastifyRequest } from 'fastify'
import { rememberClients } from '../ground/remember.js'

/** The options of Fastify's router that decide how a URL becomes a path. */
export interface RouterOptions {
  readonly caseSensitive: boolean
  readonly ignoreTrailingSlash: boolean
  readonly ignoreDuplicateSlashes: boolean
  readonly useSemicolonDelimiter: boolean
}

/**
 * Returns the options of the app's router, which Fastify 5 accepts in two places. Except for `caseSensitive`, Fastify
 * adds options that `routerOptions` lacks: an option that is true in one place counts as true.
 */
export function readRouterOptions({ initialConfig }: FastifyInstance): RouterOptions {
  const { routerOptions = {} } = initialConfig
  return {
    caseSensitive: routerOptions.caseSensitive ?? initialConfig.caseSensitive ?? true,
    ignoreTrailingSlash: Boolean(initialConfig.ignoreTrailingSlash || routerOptions.ignoreTrailingSlash),
    ignoreDuplicateSlashes: Boolean(initialConfig.ignoreDuplicateSlashes || routerOptions.ignoreDuplicateSlashes),
    useSemicolonDelimiter: Boolean(
      initialConfig.useSemicolonDelimiter ||
        ('useSemicolonDelimiter' in routerOptions && routerOptions.useSemicolonDelimiter),
    ),
  }
}

const SLASH = 47
const PERCENT = 37
const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i
const DUPLICATE_SLASHES = /\/{2,}/g
/** Matches an escape that the router decodes: any except those of the reserved characters `# $ & + , / : ; = ? @`. */
const DECODED_ESCAPE = /%(?!2[346BCF]|3[ABDF]|40)/i

const CONTINUED = '%[89ab][0-9a-f]'
/** Matches each escaped character of UTF-8 (RFC 3629, section 4), and any other percent sign. */
const CHARACTER_OR_PERCENT = new RegExp(
  `(%[0-7][0-9a-f]|%(?:c[2-9a-f]|d[0-9a-f])${CONTINUED}` +
    `|%(?:e0%[ab]|ed%[89]|e[1-9a-cef]%[89ab])[0-9a-f]${CONTINUED}` +
    `|%(?:f0%[9ab]|f[1-3]%[89ab]|f4%8)[0-9a-f]${CONTINUED}${CONTINUED})|%`,
  'gi',
)

/** Matches a percent sign that is literal in a prefix, as in a route: requests spell it `%25`. */
const BARE_PERCENT = /%(?![0-9a-f]{2})/gi

/** Matches what every router reads as the path that it spells: no delimiter, escape, duplicate slash or capital. */
const PLAIN_PATH = /^(?=\/)(?:\/[a-z0-9._~-]+)*\/?$/

/** Creates the function that returns the path by which Fastify's router found a request's route. */
export function createRequestPath(router: RouterOptions) {
  const routedPath = createRoutedPath(router)
  return function requestPath(request: FastifyRequest): string {
    const { url = '/' } = request.raw
    if (PLAIN_PATH.test(url)) return url
    return routedPath(url, url.charCodeAt(0) !== SLASH && takesWholeTarget(request))
  }
}

/**
 * Returns whether a target is a path, or has one. Any other target never matches `skipPaths`: it may spell a skipped
 * path, and still have reached the route `*`.
 */
export function hasPath({ raw: { url = '/' } }: FastifyRequest): boolean {
  return url.charCodeAt(0) === SLASH || ABSOLUTE_FORM.test(url)
}

/** Returns the path of an absolute-form, `/` for `http://host` and `http://host?query`; another target as it is. */
export function withoutOrigin(target: string): string {
  const rest = target.replace(ABSOLUTE_FORM, '')
  return rest === target || rest.charCodeAt(0) === SLASH ? rest : `/${rest}`
}

/** Returns whether a request met the route `*`, or none: these see all of a target that does not begin with a slash. */
function takesWholeTarget({ routeOptions: { url = '*' } }: FastifyRequest): boolean {
  return url === '*'
}

/**
 * Creates the function that returns the path by which Fastify's router (find-my-way 9.9 and later) routes a target: the
 * path of an absolute-form, without query and fragment, percent-encoding decoded except for reserved characters (`%2F`
 * stays), duplicate slashes by the option, in lower case where case is ignored. Every spelling of a route's URL meets
 * the route's limit.
 *
 * The router reads any first character as a slash: `*login` reaches `/login`. The function's `isWhole` says that the
 * first character counts, for the route `*`.
 *
 * @returns the function; where the router answers 400 for an escape, that escape alone stays: a server behind a proxy may
 * take it, and has to meet the limit of the path that the other escapes spell
 */
export function createRoutedPath(router: RouterOptions) {
  const { caseSensitive, ignoreDuplicateSlashes } = router
  const delimiters = delimitersFor(router)

  function sanitized(target: string): string {
    let path = before(delimiters, target)
    if (path.includes('%')) path = path.charCodeAt(0) === PERCENT ? decodedBehindEscape(path) : decoded(path)
    if (ignoreDuplicateSlashes && path.includes('//')) path = path.replace(DUPLICATE_SLASHES, '/')
    return caseSensitive ? path : path.toLowerCase()
  }

  return function routedPath(target: string, isWhole = false): string {
    if (target.charCodeAt(0) === SLASH) return sanitized(target)
    const rest = withoutOrigin(target)
    if (rest !== target) return sanitized(rest)
    const path = sanitized(target)
    return `/${isWhole ? path : path.slice(1)}`
  }
}

/** Decodes as the router does: an escape at the first character only where another one follows. */
function decodedBehindEscape(path: string): string {
  return DECODED_ESCAPE.test(path.slice(1)) ? decoded(path, 1) : path
}

/**
 * Decodes a path. `decodeURI` keeps reserved characters encoded; `%25` has to stay too, or `%252F` would become `%2F`.
 * An escape that is no UTF-8, such as `%FF`, stays as well.
 *
 * @param from the index from which `%25` is kept
 */
function decoded(path: string, from = 0): string {
  const kept = path.slice(0, from) + path.slice(from).replaceAll('%25', '%2525')
  try {
    return decodeURI(kept)
  } catch {
    return decodeURI(kept.replace(CHARACTER_OR_PERCENT, (_match, character?: string) => character ?? '%25'))
  }
}

/** Creates the function that returns the path of a URL as received, for the log: without query and fragment. */
export function createReceivedPath(router: RouterOptions) {
  const delimiters = delimitersFor(router)
  return function receivedPath(url: string): string {
    return before(delimiters, url)
  }
}

function delimitersFor({ useSemicolonDelimiter }: RouterOptions): readonly string[] {
  return useSemicolonDelimiter ? ['?', '#', ';'] : ['?', '#']
}

/** Returns the text before the first delimiter; as in the router, the first character never is one. */
function before(delimiters: readonly string[], url: string): string {
  let path = url
  for (const delimiter of delimiters) {
    const end = path.indexOf(delimiter, 1)
    if (end !== -1) path = path.slice(0, end)
  }
  return path
}

/** A list of path prefixes: `/auth` covers `/auth` and `/auth/…`, `/auth/` only `/auth/…`; the longest wins. */
export class PathPrefixes<Value> {
  readonly #prefixes: readonly (readonly [prefix: string, below: string, value: Value])[]
  readonly #ignoreTrailingSlash: boolean
  /** Finds the value of a path, as the router sees it. */
  readonly find = rememberClients((path) => this.#search(path))

  constructor(
    entries: Iterable<readonly [prefix: string, value: Value]>,
    { caseSensitive, ignoreTrailingSlash }: RouterOptions,
  ) {
    this.#ignoreTrailingSlash = ignoreTrailingSlash
    this.#prefixes = [...entries]
      .sort(([a], [b]) => b.length - a.length)
      .map(([prefix, value]) => {
        const path = decoded(prefix.replace(BARE_PERCENT, '%25'))
        const compared = caseSensitive ? path : path.toLowerCase()
        return [compared, compared.endsWith('/') ? compared : `${compared}/`, value] as const
      })
  }

  get isEmpty(): boolean {
    return this.#prefixes.length === 0
  }

  #search(path: string): Value | undefined {
    // The slash lets `/auth` find the prefix `/auth/`, since it reaches the same route.
    const withSlash = this.#ignoreTrailingSlash ? `${path}/` : path
    for (const [prefix, below, value] of this.#prefixes) {
      if (path === prefix || withSlash.startsWith(below)) return value
    }
    return undefined
  }
}
