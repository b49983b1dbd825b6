import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { clientsForKey, createClient, parseClient, splitKey } from '../clients/client.js'
import { type ClientKind, partName, partsFor } from '../clients/client-kind.js'
import {
  CEILING_LIMIT,
  DEFAULT_LIMIT,
  defaultLimitName,
  formatCounters,
  overrideLimitName,
  prefixLimitName,
  refusalsLimitName,
  routeLimitName,
  ruleLimitName,
  sharedLimitName,
} from '../clients/counter.js'
import { parseOverrideClient } from '../clients/override-client.js'
import { groupBy } from '../ground/group-by.js'
import { periodsText, type Rate } from '../limiter/rate.js'
import type { OverrideSet } from '../rules/overrides/override-set.js'
import { allRules, type RuleGroups } from '../rules/rule-groups.js'

/** The most periods: more exist only where a rate function keeps returning new ones. */
const MAX_PERIODS = 1_000

export interface Route {
  readonly method?: string | readonly string[] | undefined
  readonly url: string
  readonly config?: object | undefined
}

type RulesAndOverrides = Pick<RuleGroups, 'rules' | 'groups'> & { readonly overrides: OverrideSet }

/** The constraints of a route as its name has them, in its config: a request tells of no other part of them. */
const CONSTRAINTS = Symbol('fastify-smart-ratelimit: constraints')

/** The kinds of clients that their key tells, whatever is counted. */
const ALWAYS: readonly ClientKind[] = [{ kind: 'ip' }, { kind: 'user' }, { kind: 'route' }, { kind: 'all' }]

/** The limits of an app's code: by what they count clients, and their names. */
export class CodeCounters {
  readonly #kinds: ClientKind[] = [...ALWAYS]
  readonly #prefixes = new Set<string>()
  readonly #periods = new Set<string>()
  readonly #routes = new Set<string>()
  /** The names of limits for single routes, and of those that several routes share. */
  readonly #routeLimits = new Set<string>()
  readonly #sharedLimits = new Set<string>()

  addKind(client: ClientKind): void {
    this.#kinds.push(client)
  }

  addPrefix(prefix: string): string {
    const limit = prefixLimitName(prefix)
    this.#prefixes.add(limit)
    return limit
  }

  /** Adds the periods of a rate. */
  addPeriods(rate: Rate): string {
    const text = periodsText(rate)
    if (this.#periods.size < MAX_PERIODS) this.#periods.add(text)
    return text
  }

  /** Adds a route. Routes of one path and method differ in their constraints, such as version and host. */
  addRoute(route: RouteOptions): void {
    const constraints = constraintsText(route.constraints)
    if (constraints !== '') route.config = Object.assign({}, route.config, { [CONSTRAINTS]: constraints })
    this.#routes.add(routeName(route))
  }

  /** Adds the requests without a route below the prefix of a scope, which limits of its not-found handler count by. */
  addNotFound({ prefix }: Pick<FastifyInstance, 'prefix'>): void {
    this.#routes.add(routeName({ url: notFoundUrl(prefix) }))
  }

  addRouteLimit(name: string): void {
    this.#routeLimits.add(name)
  }

  addSharedLimit(name: string): void {
    this.#sharedLimits.add(name)
  }

  /**
   * Returns all counters of a client, by its key in the log, or as the log has the client; those of one rule by a key that
   * names it. Also the counter with that name.
   */
  countersFor(key: string, inForce: RulesAndOverrides): string[] {
    const named = createClient({ name: 'key', value: key })
    const { rule } = splitKey(key)
    const rules = allRules(inForce)
    if (rule === undefined) {
      const spelled = parseClient(key) ?? []
      const clients = [named, ...this.#kinds.flatMap((kind) => clientsForKey(key, kind))].concat(spelled)
      const limits = [...this.#limits(), ...overrideLimits(inForce.overrides, key)]
      // There may be thousands of rules, of few kinds.
      const byKind = groupBy(rules, (each) => partsFor(each.client).map(partName).join('+'))
      const ofRules = [...byKind.values()].flatMap((alike) => {
        const counted = alike.slice(0, 1).flatMap((each) => clientsForKey(key, each.client))
        return formatCounters(ruleLimits(alike), counted.concat(spelled))
      })
      return [key, ...formatCounters(limits, clients), ...ofRules]
    }
    const kinds = rules.flatMap(({ name, client }) => (name === rule ? client : []))
    const clients = [...ALWAYS, ...kinds].flatMap((kind) => clientsForKey(key, kind))
    const ofRule = formatCounters(ruleLimits([{ name: rule }]), clients)
    // A function of the host may answer what looks like it.
    return [key, ...ofRule, ...formatCounters(this.#limits(), [named])]
  }

  #limits(): string[] {
    const inPeriods = [...this.#periods].flatMap((periods) => [
      defaultLimitName(periods),
      ...[...this.#sharedLimits].map((name) => sharedLimitName(periods, name)),
      ...[...this.#routeLimits].flatMap((name) =>
        [...this.#routes].map((route) => routeLimitName(periods, name, route)),
      ),
    ])
    return [DEFAULT_LIMIT, CEILING_LIMIT, ...this.#prefixes, ...inPeriods]
  }
}

/** Returns the route of a request as counters have it, or that of the requests that its not-found handler answers. */
export function requestRoute({ routeOptions, server }: FastifyRequest): string {
  const { method, url = notFoundUrl(server.prefix), config } = routeOptions
  return routeName({ method, url, config })
}

function notFoundUrl(prefix: string): string {
  return `${prefix}*`
}

/** Returns the name of a route: Fastify answers HEAD with the handler of GET, and `/a` is the same route as `/a/`. */
export function routeName({ method, url, config }: Route): string {
  const methods = [method ?? []].flat().map((each) => (each === 'HEAD' ? 'GET' : each))
  return `${[...new Set(methods)].sort().join(',')} ${url.replace(/(?<=.)\/$/, '')}${routeConstraints(config)}`
}

/** Returns the constraints in the config of a route that was added, with a blank before each, such as ` version="1.0.0"`. */
export function routeConstraints(config: object | undefined): string {
  const constraints: unknown = config && Reflect.get(config, CONSTRAINTS)
  return typeof constraints === 'string' ? constraints : ''
}

function constraintsText(constraints: RouteOptions['constraints']): string {
  return Object.entries(constraints ?? {})
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => ` ${name}=${value instanceof RegExp ? value : JSON.stringify(value)}`)
    .join('')
}

/** Returns the limits of what rules count, and of their refusals. */
function ruleLimits(rules: readonly { readonly name: string }[]): string[] {
  return rules.flatMap(({ name }) => [ruleLimitName(name), refusalsLimitName(name)])
}

/** Returns the limits of overrides with a rate for a client, by its key in the log. */
function overrideLimits(overrides: OverrideSet, key: string): string[] {
  try {
    return overrides.ratesFor(parseOverrideClient(key)).map(({ id }) => overrideLimitName(id))
  } catch {
    return []
  }
}
