import type { FastifyBaseLogger } from 'fastify'
import type { Geo } from '../clients/geo.js'
import { errorMessage } from '../ground/errors.js'
import type { Condition } from '../rules/conditions/condition.js'
import { ConditionFacts } from '../rules/conditions/condition-facts.js'
import { ConditionFailure, TooMuchWork } from '../rules/conditions/failure.js'
import { type RequestWork, SHORT_LENGTH } from '../rules/patterns/work.js'
import type { Rule } from '../rules/rule.js'
import type { CheckedRequest, InForce } from './checked-request.js'
import { hostName, routePattern } from './request-values.js'

const JOINED = ', '
const NO_FILES = new ConditionFailure('asks for files about addresses, which the app has not')
/** The most lines of a process: beyond it, failures are only counted. */
const MAX_LOGGED = 1_000

/** Counts the conditions that could not be decided, and logs the first of each rule. */
export class ConditionReports {
  failures = 0
  #logged = 0
  readonly #log: Pick<FastifyBaseLogger, 'warn'>
  /** An edited rule is another one, and is logged again. */
  readonly #reported = new WeakSet<Rule>()

  constructor(log: Pick<FastifyBaseLogger, 'warn'>) {
    this.#log = log
  }

  failed(rule: Rule, error: unknown): void {
    this.failures++
    if (this.#logged >= MAX_LOGGED || this.#reported.has(rule)) return
    this.#reported.add(rule)
    this.#logged++
    const message =
      error instanceof TooMuchWork
        ? 'Rate limits refuse a request with 414: evaluating the rules up to the condition of this one would take too much work for texts as long as those of the request'
        : 'Rate limit rule did not match: its condition could not be decided for a request'
    this.#log.warn({ rule: rule.name, reason: errorMessage(error) }, message)
  }
}

/**
 * Creates the function that returns the first of a group's rules for a request's path and method whose condition holds;
 * null where that takes too much work.
 *
 * @param noteUser called where a condition reads the user
 */
export function createRuleChooser(reports: ConditionReports, noteUser: (checked: CheckedRequest) => void) {
  return function chooseRule(checked: CheckedRequest, rules: InForce['rules']): Rule | null | undefined {
    const { path, request, nowMs } = checked
    const candidates = rules.candidates(path, request.method, nowMs, checked)
    if (candidates === null) return null
    const facts = new RequestFacts(checked, checked)
    for (const rule of candidates) {
      const { condition } = rule
      if (condition === undefined) return rule
      if (condition.readsUser) noteUser(checked)
      try {
        if (condition.holds(facts)) return rule
      } catch (error) {
        reports.failed(rule, error)
        if (error instanceof TooMuchWork) return null
      }
    }
    return undefined
  }
}

/**
 * Returns why a condition does not hold for a request; undefined where it does.
 *
 * @param work takes the work
 */
export function whyNotHeld(condition: Condition, checked: CheckedRequest, work: RequestWork): string | undefined {
  try {
    return condition.holds(new RequestFacts(checked, work)) ? undefined : 'The condition is false.'
  } catch (error) {
    return `The condition could not be decided: ${errorMessage(error)}.`
  }
}

/** The facts of a request that conditions see, read when they ask for them. */
class RequestFacts extends ConditionFacts {
  readonly #checked: CheckedRequest
  /** The facts that take long to read, kept for all conditions. */
  #host: string | undefined
  #headers: CheckedRequest['request']['headers'] | undefined
  #firstHeaders: Map<string, string> | undefined

  constructor(checked: CheckedRequest, work: RequestWork) {
    super(work)
    this.#checked = checked
  }

  get method(): string {
    return this.#checked.request.method
  }

  get path(): string {
    return this.#checked.path
  }

  get route(): string {
    return routePattern(this.#checked.request)
  }

  get host(): string {
    this.#host ??= hostName(String(this.#checked.request.hostname ?? ''))
    return this.#host
  }

  get ip(): string {
    return this.#checked.address.plain ?? ''
  }

  get geo(): Geo {
    const { geo } = this.#checked.inForce.sources
    // Rules that ask for files which the app has not are not in force.
    if (geo === undefined) throw NO_FILES
    return geo
  }

  get user(): object | null {
    return this.#checked.userFields
  }

  isListed(list: string, address: string): boolean {
    return this.#checked.inForce.sources.lists.includes(list, address)
  }

  header(name: string): string | undefined {
    // Fastify may copy them each time.
    this.#headers ??= this.#checked.request.headers
    const value = Object.hasOwn(this.#headers, name) ? this.#headers[name] : undefined
    if (typeof value !== 'string') return Array.isArray(value) ? value[0] : undefined
    return value.length <= SHORT_LENGTH && !value.includes(JOINED) ? value : this.#firstHeader(name, value)
  }

  #firstHeader(name: string, value: string): string {
    this.#firstHeaders ??= new Map()
    let first = this.#firstHeaders.get(name)
    if (first === undefined) {
      first = value.includes(JOINED) ? firstSent(this.#checked.request.raw.rawHeaders, name, value) : value
      this.#firstHeaders.set(name, first)
    }
    return first
  }

  headerNames(): readonly string[] {
    return Object.keys(this.#checked.request.headers)
  }

  parameter(name: string): string | undefined {
    const { query } = this.#checked.request
    if (typeof query !== 'object' || query === null || !Object.hasOwn(query, name)) return undefined
    const value: unknown = Reflect.get(query, name)
    const first: unknown = Array.isArray(value) ? value[0] : value
    if (typeof first === 'string') return first
    // A host's parser, or its schema, may have made numbers of them.
    return typeof first === 'number' || typeof first === 'boolean' ? String(first) : undefined
  }

  parameterNames(): readonly string[] {
    const { query } = this.#checked.request
    return typeof query === 'object' && query !== null ? Object.keys(query) : []
  }
}

/** Returns the first of the headers of a name, whose values Node.js joins. */
function firstSent(rawHeaders: readonly string[], name: string, joined: string): string {
  for (let index = 0; index + 1 < rawHeaders.length; index += 2) {
    const value = rawHeaders[index + 1]
    if (value === undefined || rawHeaders[index]?.toLowerCase() !== name) continue
    // The host may have set the header to something else.
    return joined.startsWith(value + JOINED) ? value : joined
  }
  return joined
}
