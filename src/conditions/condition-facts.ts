import { ConditionFailure } from './failure.js'

/**
 * The most work that the conditions of one request may take together, beside what each may take in any case. A unit is a character that is read or copied, an
 * element of a list, or one instruction of a pattern for one character, of which RE2 takes some 15 ns: a request that
 * a client made as long as it could takes some 20 ms at worst, whatever the number of rules.
 */
export const MAX_CONDITION_WORK = 1_000_000

/**
 * The work that a condition may take in any case, per character of it: so a long text that one of them reads keeps no
 * other one from holding that reads little.
 */
const WORK_PER_CHARACTER = 500

/**
 * The most characters of all conditions that are evaluated for one request, such as 25,000 of 40: these take some 10 ms.
 */
const MAX_CONDITIONS_LENGTH = 1_000_000

const TOO_MANY_CONDITIONS = new ConditionFailure(
  'was not reached: too many rules with conditions are for the same path',
)
const TOO_MUCH_WORK = new ConditionFailure(
  'takes too much work for one request: test a shorter text, or write a simpler pattern',
)

/** What conditions see of one request. Nothing of it is read before a condition asks for it. */
export abstract class ConditionFacts {
  /** The element of the list that a macro goes through. Macros do not nest: one is enough. */
  element: unknown
  #work = 0
  /** What the present condition may still take in any case. */
  #own = 0
  #length = 0

  abstract readonly method: string
  abstract readonly path: string
  /** The pattern of the matched route; `404` without one. */
  abstract readonly route: string
  /** The host name in lower case, without the port. */
  abstract readonly host: string
  /** The client's address; empty where there is none. */
  abstract readonly ip: string
  /** The object that the host's option `user` answered; null without one. */
  abstract readonly user: object | null
  /** Returns the first value of a header. */
  abstract header(name: string): string | undefined
  /** Returns the first value of a query parameter. */
  abstract parameter(name: string): string | undefined
  /** Returns the names of all headers, in lower case. */
  abstract headerNames(): readonly string[]
  /** Returns the names of all query parameters. */
  abstract parameterNames(): readonly string[]

  /** @throws ConditionFailure when the conditions of the request take too much work */
  spend(units: number): void {
    if (units <= this.#own) {
      this.#own -= units
      return
    }
    // What is not done does not count: smaller work may still be.
    if (this.#work + units > MAX_CONDITION_WORK) throw TOO_MUCH_WORK
    this.#work += units
  }

  /**
   * Notes that a condition begins, apart from what it spends: a long text must not keep simple conditions from holding.
   *
   * @throws ConditionFailure when too many conditions are evaluated for the request
   */
  begin(length: number): void {
    this.#length += length
    this.#own = length * WORK_PER_CHARACTER
    if (this.#length > MAX_CONDITIONS_LENGTH) throw TOO_MANY_CONDITIONS
  }
}
