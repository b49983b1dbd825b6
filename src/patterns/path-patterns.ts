import { compiledPattern, lowerCasedPattern, SHORT_PATH_LENGTH } from './pattern.js'

/** What the router makes of paths, and patterns have to follow. */
export interface PathOptions {
  /** Where it is false, paths are in lower case. */
  readonly caseSensitive: boolean
  /** A path with and without a slash at its end reaches the same route. */
  readonly ignoreTrailingSlash: boolean
}

/** Short paths that repeat are not searched again; forgotten together when there are too many. */
const REMEMBERED = 4_096

/** Single patterns, compiled when a path first asks for them: of many thousands few are ever asked for. */
export class PathPatterns {
  readonly #caseSensitive: boolean
  readonly #bothSlashForms: boolean
  readonly #remembered = new Map<string, boolean>()

  constructor({ caseSensitive, ignoreTrailingSlash }: PathOptions) {
    this.#caseSensitive = caseSensitive
    this.#bothSlashForms = ignoreTrailingSlash
  }

  /**
   * @param pattern one that was checked
   * @param path as the router sees it
   */
  matches(pattern: string, path: string): boolean {
    if (path.length > SHORT_PATH_LENGTH) return this.#search(pattern, path)
    // No pattern has a NUL, so that the two cannot be taken for two others.
    const question = `${pattern}\0${path}`
    const known = this.#remembered.get(question)
    if (known !== undefined) return known
    const answer = this.#search(pattern, path)
    if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
    this.#remembered.set(question, answer)
    return answer
  }

  #search(pattern: string, path: string): boolean {
    const compiled = compiledPattern(this.#caseSensitive ? pattern : lowerCasedPattern(pattern), this.#caseSensitive)
    if (compiled.test(path)) return true
    if (!this.#bothSlashForms || path.length < 2) return false
    return compiled.test(path.endsWith('/') ? path.slice(0, -1) : `${path}/`)
  }
}
