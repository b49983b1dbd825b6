import { SHORT_LENGTH, takeWork } from '../patterns/work.js'
import { TooMuchWork } from './failure.js'

/** The same as `SHORT_LENGTH` for the elements of lists: more than a request of a browser has headers. */
const SHORT_LIST = 64

const TOO_MUCH_WORK = new TooMuchWork('The conditions take too much work for one request')

/** What conditions see of one request. Nothing of it is read before a condition asks for it. */
export abstract class ConditionFacts {
  /** The element of the list that a macro goes through. Macros do not nest: one is enough. */
  element: unknown
  readonly #request: { work: number }
  /** Whether a macro goes through a long list: what it does for each element adds up. */
  #isRepeating = false

  /** @param request takes the work that conditions make */
  constructor(request: { work: number }) {
    this.#request = request
  }

  abstract readonly method: string
  abstract readonly path: string
  /** The pattern of the matched route; `404` without one. */
  abstract readonly route: string
  /** The host name in lower case, without the port and a dot at its end. */
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

  /**
   * Takes the work on a text before it is done; that on a short one counts for nothing.
   *
   * @param weight the units for each character
   * @throws TooMuchWork
   */
  takeText(length: number, weight: number): void {
    if (length > SHORT_LENGTH || this.#isRepeating) this.#take(length * weight)
  }

  /**
   * Does the same for the elements of a list.
   *
   * @throws TooMuchWork
   */
  takeList(length: number, weight = 1): void {
    if (length > SHORT_LIST || this.#isRepeating) this.#take(length * weight)
  }

  /** Does the work of a macro, whose list has been taken. */
  repeat<Result>(length: number, work: () => Result): Result {
    if (length <= SHORT_LIST) return work()
    this.#isRepeating = true
    try {
      return work()
    } finally {
      this.#isRepeating = false
    }
  }

  #take(units: number): void {
    if (!takeWork(this.#request, units)) throw TOO_MUCH_WORK
  }
}
