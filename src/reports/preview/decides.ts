import { isIP } from 'node:net'
import type { ConditionSources } from '../../clients/condition-sources.js'
import type { Geo } from '../../clients/geo.js'
import type { Steps } from '../../ground/time/cooperative-yield.js'
import { ConditionFacts } from '../../rules/conditions/condition-facts.js'
import { TooMuchWork } from '../../rules/conditions/failure.js'
import type { PathOptions } from '../../rules/patterns/path-patterns.js'
import type { RequestWork } from '../../rules/patterns/work.js'
import type { Rule } from '../../rules/rule.js'
import { RuleSet } from '../../rules/rule-set.js'
import { loggedAddress, type UnknownFact } from './clients.js'
import type { LoggedRequest } from './events.js'
import type { DecidesVerdict, ReplayDependencies } from './replay.js'

export type Decides = ReplayDependencies['decides']

const UNKNOWN = new Error('The log does not have it')

/**
 * Creates a function that returns whether the rule, put among the active ones, is the first of its group for a request.
 *
 * @param sources what conditions may ask; undefined where that is not known
 */
export async function createDecides(
  router: PathOptions,
  rule: Rule,
  active: readonly Rule[],
  sources?: ConditionSources,
): Promise<Decides> {
  // Rules after the candidate, and those of other groups, cannot take a request from it, and need not be compiled.
  const others = active.filter(
    (other) => other.name !== rule.name && other.group === rule.group && precedes(other, rule),
  )
  const before = await RuleSet.compile(others, router)
  const candidateSet = new RuleSet([rule], router)
  return function* decides(event, path, method) {
    const nowMs = event.timestampMs
    const request = { work: 0 }
    const candidate = candidateSet.match(path, method, nowMs, request)
    if (candidate === undefined) return false
    const first = before.match(path, method, nowMs, request)
    if (first === null || candidate === null) return 'too_long'
    if (first === undefined && rule.condition === undefined) return true
    const facts = new LoggedFacts(event, path, method, request, sources)
    const holds = conditionHolds(rule, facts)
    if (first !== undefined && first.condition === undefined) return holds === true && { takenBy: first.name }
    const rivals = first === undefined || holds === false ? [] : before.candidates(path, method, nowMs, request)
    return rivals === null ? 'too_long' : yield* withRivals(holds, rivals, facts)
  }
}

/** Returns whether the rule decides where rules of a higher priority may: thousands of them, so that each is a step. */
function* withRivals(holds: DecidesVerdict, rivals: readonly Rule[], facts: LoggedFacts): Steps<DecidesVerdict> {
  let decides = holds
  for (const rival of rivals) {
    yield
    const takes = conditionHolds(rival, facts)
    if (takes === true) return decides === true && { takenBy: rival.name }
    if (takes === 'too_long' || (takes !== false && decides === true)) decides = takes
  }
  return decides
}

function conditionHolds({ name, condition }: Rule, facts: LoggedFacts): DecidesVerdict {
  if (condition === undefined) return true
  facts.forgetUnknown()
  try {
    return condition.holds(facts)
  } catch (error) {
    if (error instanceof TooMuchWork) return 'too_long'
    // An unknown fact may have decided it. Any other failure does not match, as on a server.
    return facts.unknownTo(name) ?? false
  }
}

/** Returns whether `a` comes before `b` in the rule set of their group. */
function precedes(a: Rule, b: Rule): boolean {
  return a.priority > b.priority || (a.priority === b.priority && a.name < b.name)
}

/**
 * The facts of a recorded request that conditions see. A fact that the log does not have is unknown, and never guessed.
 */
class LoggedFacts extends ConditionFacts {
  /** The first unknown fact that a condition read. */
  #lacked: Omit<UnknownFact, 'rule'> | undefined

  constructor(
    readonly event: LoggedRequest,
    readonly path: string,
    readonly method: string,
    request: RequestWork,
    readonly sources: ConditionSources | undefined,
  ) {
    super(request)
  }

  /** The files are those of now. A command knows none. */
  get geo(): Pick<Geo, 'country' | 'operator'> {
    return (
      this.sources?.geo ?? {
        country: () => this.#unknown('client.country', 'process'),
        operator: () => this.#unknown('client.asn', 'process'),
      }
    )
  }

  /** The log may have a network or a pseudonym, which is no address. */
  get ip(): string {
    const address = loggedAddress(this.event)
    if (address === null || isIP(address) === 0) return this.#unknown('client.ip')
    return address
  }

  get route(): never {
    return this.#unknown('request.route')
  }

  get host(): never {
    return this.#unknown('request.host')
  }

  get user(): never {
    return this.#unknown('user')
  }

  override userWith(field: string): never {
    return this.#unknown(`user.${field}`)
  }

  /** The lists are those of now. A command knows none. */
  isListed(list: string, address: string): boolean {
    if (this.sources === undefined) return this.#unknown(`inList(client.ip, '${list}')`, 'process')
    return this.sources.lists.includes(list, address)
  }

  header(name: string): never {
    return this.#unknown(`request.headers['${name}']`)
  }

  parameter(name: string): never {
    return this.#unknown(`request.query['${name}']`)
  }

  headerNames(): never {
    return this.#unknown('request.headers')
  }

  parameterNames(): never {
    return this.#unknown('request.query')
  }

  forgetUnknown(): void {
    this.#lacked = undefined
  }

  /** Returns the unknown fact that the condition of a rule read; undefined where there was none. */
  unknownTo(rule: string): UnknownFact | undefined {
    return this.#lacked === undefined ? undefined : { rule, ...this.#lacked }
  }

  override lacks(): boolean {
    return false
  }

  #unknown(field: string, lacks: UnknownFact['lacks'] = 'log'): never {
    this.#lacked ??= { field, lacks }
    throw UNKNOWN
  }
}
