import type { Geo } from '../../clients/geo.js'
import { SHORT_LENGTH, takeWork } from '../patterns/work.js'
import { ConditionFailure, TooMuchWork } from './failure.js'

/** The `SHORT_LENGTH` of the elements of lists: more than a request of a browser has headers. */
const SHORT_LIST = 64

/** The work of an element for which a macro fails: some 0.7 us, and 10 us where the library creates the error. */
const FAILURE_WORK = 50
const LIBRARY_FAILURE_WORK = 700

const TOO_MUCH_WORK = new TooMuchWork('The conditions take too much work for one request')

/** The facts that conditions see of one request. They are not read before a condition asks for them. */
export abstract class ConditionFacts {
  readonly #request: { work: number }
  /** Whether the macro that is evaluated goes through a long list: the work for each element adds up. */
  #isRepeating = false
  #isExhausted = false

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
  /** What files know of addresses. */
  abstract readonly geo: Pick<Geo, 'country' | 'operator'>
  /** The object that the host's option `user` answered; null without one. */
  abstract readonly user: object | null
  /** Returns whether a named list has an address. */
  abstract isListed(list: string, address: string): boolean
  /** Returns the first value of a header. */
  abstract header(name: string): string | undefined
  /** Returns the first value of a query parameter. */
  abstract parameter(name: string): string | undefined
  /** Returns the names of all headers, in lower case. */
  abstract headerNames(): readonly string[]
  /** Returns the names of all query parameters. */
  abstract parameterNames(): readonly string[]

  /** Returns the object of which a field is read; null without one. */
  userWith(_field: string): object | null {
    return this.user
  }

  /** Returns whether the user certainly has no such field. No getter is called. */
  lacks(field: string): boolean {
    const { user } = this
    return user === null || !(field in user || Object.hasOwn(user, field) || user instanceof Map)
  }

  /**
   * Takes the work on a text before it is done; that on a short one counts for nothing.
   *
   * @param weight the units for each character
   * @param inMacro whether it is done for each element of a list
   * @throws TooMuchWork
   */
  takeText(length: number, weight: number, inMacro: boolean): void {
    if (length > SHORT_LENGTH || (inMacro && this.#isRepeating)) this.take(length * weight)
  }

  /**
   * Does the same for the elements of a list.
   *
   * @throws TooMuchWork
   */
  takeList(length: number, weight: number, inMacro: boolean): void {
    if (length > SHORT_LIST || (inMacro && this.#isRepeating)) this.take(length * weight)
  }

  /**
   * Takes the work of a macro that begins. Macros do not stand within each other.
   *
   * @returns whether its list is long
   * @throws TooMuchWork
   */
  takeMacro(length: number, weight: number): boolean {
    this.#isRepeating = length > SHORT_LIST
    if (this.#isRepeating) this.take(length * weight)
    return this.#isRepeating
  }

  /**
   * Takes the work of an element for which a macro fails: the library creates an error with a stack.
   *
   * @throws TooMuchWork
   */
  takeFailure(error: unknown): void {
    this.take(error instanceof ConditionFailure ? FAILURE_WORK : LIBRARY_FAILURE_WORK)
  }

  /**
   * Refuses a request whose conditions have taken more work than one may make: none decides any more.
   *
   * @throws TooMuchWork
   */
  refuseExhausted(): void {
    if (this.#isExhausted) throw TOO_MUCH_WORK
  }

  /**
   * Takes work in any case.
   *
   * @throws TooMuchWork
   */
  take(units: number): void {
    if (takeWork(this.#request, units)) return
    this.#isExhausted = true
    throw TOO_MUCH_WORK
  }
}

let current: ConditionFacts | undefined

/** Evaluates with the facts of a request, since the library hands none to what it calls. */
export function evaluateWith(facts: ConditionFacts, evaluate: () => unknown): unknown {
  const outer = current
  current = facts
  try {
    return evaluate()
  } finally {
    current = outer
  }
}

/** Returns the facts of the request that a condition is evaluated for. */
export function currentFacts(): ConditionFacts {
  if (current === undefined) throw new Error('No condition is evaluated')
  return current
}
