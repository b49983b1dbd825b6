import { RE2JS } from 're2js'
import type { PathOptions } from './rule-set.js'

/** Patterns in use are compiled once; forgotten together when there are too many. */
const COMPILED = 1_000
/** Paths that repeat are not searched again; forgotten together when there are too many. */
const REMEMBERED = 4_096
/** A longer path is searched each time, so that hostile ones cannot fill the memory. */
const REMEMBERED_PATH_LENGTH = 256

/** Single patterns, compiled when a path first asks for them: of many thousands few are ever asked for. */
export class PathPatterns {
  readonly #flags: number
  readonly #bothSlashForms: boolean
  readonly #compiled = new Map<string, RE2JS>()
  readonly #remembered = new Map<string, boolean>()

  constructor({ caseSensitive, ignoreTrailingSlash }: PathOptions) {
    this.#flags = caseSensitive ? 0 : RE2JS.CASE_INSENSITIVE
    this.#bothSlashForms = ignoreTrailingSlash
  }

  /**
   * @param pattern one that was checked
   * @param path as the router sees it
   */
  matches(pattern: string, path: string): boolean {
    // No pattern has a NUL, so that the two cannot be taken for two others.
    const question = `${pattern}\0${path}`
    const known = this.#remembered.get(question)
    if (known !== undefined) return known
    const answer = this.#search(pattern, path)
    if (path.length <= REMEMBERED_PATH_LENGTH) {
      if (this.#remembered.size >= REMEMBERED) this.#remembered.clear()
      this.#remembered.set(question, answer)
    }
    return answer
  }

  #search(pattern: string, path: string): boolean {
    let compiled = this.#compiled.get(pattern)
    if (compiled === undefined) {
      compiled = RE2JS.compile(pattern, this.#flags)
      if (this.#compiled.size >= COMPILED) this.#compiled.clear()
      this.#compiled.set(pattern, compiled)
    }
    if (compiled.test(path)) return true
    if (!this.#bothSlashForms || path.length < 2) return false
    return compiled.test(path.endsWith('/') ? path.slice(0, -1) : `${path}/`)
  }
}
