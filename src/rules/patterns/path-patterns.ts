import { ClientMemory } from '../../ground/remember.js'
import { detached } from '../../ground/storable.js'
import { compiledPattern, lowerCasedPattern } from './pattern.js'
import { SHORT_LENGTH } from './work.js'

/** The router's treatment of paths, which patterns have to follow. */
export interface PathOptions {
  /** Whether case matters; paths are in lower case where it does not. */
  readonly caseSensitive: boolean
  /** Whether a path with and without a slash at its end reaches the same route. */
  readonly ignoreTrailingSlash: boolean
}

/** Matches single patterns, compiled at their first use: of many thousands few are ever used. */
export class PathPatterns {
  readonly #caseSensitive: boolean
  readonly #bothSlashForms: boolean
  readonly #results = new ClientMemory<boolean>()

  constructor({ caseSensitive, ignoreTrailingSlash }: PathOptions) {
    this.#caseSensitive = caseSensitive
    this.#bothSlashForms = ignoreTrailingSlash
  }

  /**
   * Returns whether a path matches a pattern.
   *
   * @param pattern a valid pattern
   * @param path as the router sees it
   */
  matches(pattern: string, path: string): boolean {
    if (path.length > SHORT_LENGTH) return this.#search(pattern, path)
    // A pattern has no NUL, so that the key is unique.
    const question = `${pattern}\0${path}`
    return this.#results.values.get(question) ?? this.#results.keep(detached(question), this.#search(pattern, path))
  }

  #search(pattern: string, path: string): boolean {
    const compiled = compiledPattern(this.#caseSensitive ? pattern : lowerCasedPattern(pattern), this.#caseSensitive)
    if (compiled.test(path)) return true
    if (!this.#bothSlashForms || path.length < 2) return false
    return compiled.test(path.endsWith('/') ? path.slice(0, -1) : `${path}/`)
  }
}
