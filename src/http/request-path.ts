import type { FastifyInstance } from 'fastify'

/** The options of Fastify's router that decide how a URL becomes a path. */
export interface RouterOptions {
  readonly caseSensitive: boolean
  readonly ignoreTrailingSlash: boolean
  readonly ignoreDuplicateSlashes: boolean
  readonly useSemicolonDelimiter: boolean
}

/** What the app's router was told, in either of the two places where Fastify 5 takes it. */
export function routerOptionsOf({ initialConfig }: FastifyInstance): RouterOptions {
  const { routerOptions = {} } = initialConfig
  return {
    caseSensitive: (initialConfig.caseSensitive ?? true) && (routerOptions.caseSensitive ?? true),
    ignoreTrailingSlash: Boolean(initialConfig.ignoreTrailingSlash || routerOptions.ignoreTrailingSlash),
    ignoreDuplicateSlashes: Boolean(initialConfig.ignoreDuplicateSlashes || routerOptions.ignoreDuplicateSlashes),
    useSemicolonDelimiter: Boolean(
      initialConfig.useSemicolonDelimiter ||
        ('useSemicolonDelimiter' in routerOptions && routerOptions.useSemicolonDelimiter),
    ),
  }
}

const ABSOLUTE_FORM = /^https?:\/\/[^/?#]*/i
const QUERY_AND_FRAGMENT = ['?', '#']
const DUPLICATE_SLASHES = /\/{2,}/g

/**
 * The path that Fastify's router (find-my-way 9) routes a URL by: absolute-form reduced to its path, no query and no
 * fragment, percent-encoding decoded except for reserved characters (`%2F` stays), duplicate slashes as its option
 * says. Whoever spells a route's URL differently still meets the route's limit.
 *
 * @returns the URL itself where the router answers 400 for it
 */
export function createRequestPath({ ignoreDuplicateSlashes, useSemicolonDelimiter }: RouterOptions) {
  const delimiters = useSemicolonDelimiter ? ['?', '#', ';'] : QUERY_AND_FRAGMENT

  return function requestPath(url: string): string {
    let path = url
    if (path.charCodeAt(0) !== 47) {
      path = path.replace(ABSOLUTE_FORM, '')
      if (path.charCodeAt(0) !== 47) path = `/${path}`
    }
    path = before(delimiters, path)
    if (path.includes('%')) path = decoded(path)
    return ignoreDuplicateSlashes && path.includes('//') ? path.replace(DUPLICATE_SLASHES, '/') : path
  }
}

/** `decodeURI` leaves reserved characters encoded; `%25` has to stay as well, or `%252F` would become `%2F`. */
function decoded(path: string): string {
  try {
    return decodeURI(path.replaceAll('%25', '%2525'))
  } catch {
    return path
  }
}

/** The path of a URL as it was received, for the log: without query and fragment. */
export function receivedPath(url: string): string {
  return before(QUERY_AND_FRAGMENT, url)
}

/** The text before the first of the delimiters; the first character is never one, for the router either. */
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
  readonly #router: RouterOptions

  constructor(entries: Iterable<readonly [prefix: string, value: Value]>, router: RouterOptions) {
    this.#router = router
    this.#prefixes = [...entries]
      .sort(([a], [b]) => b.length - a.length)
      .map(([prefix, value]) => {
        const path = decoded(prefix)
        const compared = router.caseSensitive ? path : path.toLowerCase()
        return [compared, compared.endsWith('/') ? compared : `${compared}/`, value] as const
      })
  }

  find(path: string): Value | undefined {
    if (this.#prefixes.length === 0) return undefined
    const compared = this.#router.caseSensitive ? path : path.toLowerCase()
    // Without this, `/auth` would miss the prefix `/auth/` although it reaches the same route.
    const withSlash = this.#router.ignoreTrailingSlash ? `${compared}/` : compared
    for (const [prefix, below, value] of this.#prefixes) {
      if (compared === prefix || withSlash.startsWith(below)) return value
    }
    return undefined
  }
}
