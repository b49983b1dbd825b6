import type { FastifyInstance, FastifyRequest, RouteOptions } from 'fastify'
import { countersForComposite, countersForKey, scopeFor } from '../clients/client-key.js'
import type { ClientKind, KeyPart } from '../clients/client-kind.js'
import { parseOverrideClient } from '../clients/override-client.js'
import { MONTH_MS } from '../limiter/period.js'
import type { Rate } from '../limiter/rate.js'
import type { OverrideSet } from '../rules/overrides/override-set.js'
import type { Rule } from '../rules/rule.js'

const CEILING = 'ceiling'
const REFUSALS = 'refusals'
/** More periods exist only where a rate function keeps returning new ones. */
const MAX_PERIODS = 1_000

export interface Route {
  readonly method?: string | readonly string[] | undefined
  readonly url: string
  readonly config?: object | undefined
}

/** The constraints of a route as its name has them, in its config: a request tells of no other part of them. */
const CONSTRAINTS = Symbol('fastify-smart-ratelimit: constraints')

/** The scopes that separate the counters of one client: prefixes, periods, routes, the ceiling, and refusals. */
export class CounterScopes {
  readonly #prefixes = new Set<string>()
  readonly #others = new Set<string>()
  readonly #periods = new Set<string>()
  readonly #routes = new Set<string>()
  /** The names of limits for single routes. */
  readonly #limitNames = new Set<string>()
  readonly #sharedLimits = new Set<string>()
  /** The kinds that identify clients together: a client's key in the log does not name them. */
  readonly #composites: (readonly KeyPart[])[] = []

  addKind(client: ClientKind): void {
    if (client.kind === 'composite') this.#composites.push(client.parts)
  }

  addPrefix(prefix: string): string {
    const scope = scopeFor(prefix)
    this.#prefixes.add(scope)
    return scope
  }

  addCeiling(): string {
    this.#others.add(CEILING)
    return CEILING
  }

  /** Adds the counters of refusals, for rules that ban clients. */
  addRefusals(): string {
    this.#others.add(REFUSALS)
    return REFUSALS
  }

  /** Adds the periods of a rate, in whatever order it has them. */
  addPeriods(rate: Rate): string {
    const periods = (rate.windows ?? [rate]).map(({ periodMs }) => periodMs).sort((a, b) => a - b)
    const scope = `per:${periods.map((periodMs) => (periodMs === MONTH_MS ? 'month' : periodMs)).join('+')}`
    if (this.#periods.size < MAX_PERIODS) this.#periods.add(scope)
    return scope
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

  addLimit(name: string): void {
    this.#limitNames.add(name)
  }

  /** Adds a limit that several routes share. */
  addShared(name: string): string {
    const scope = scopeFor(`shared:${name}`)
    this.#sharedLimits.add(scope)
    return scope
  }

  /** Returns all counters of a client, by its key in the log; also the counter with that name. */
  countersFor(key: string): readonly string[] {
    const limits = [...this.#limitNames].flatMap((name) => [...this.#routes].map((route) => limitScope(name, route)))
    const routeScopes = [...limits, ...this.#sharedLimits].flatMap((limit) =>
      [...this.#periods].map((period) => `${period}|${limit}`),
    )
    const scopes = [...this.#prefixes, ...this.#others, ...this.#periods, ...routeScopes]
    const composites = this.#composites.flatMap((parts) => countersForComposite(key, parts))
    const counters = [...countersForKey(key), ...composites].flatMap((counter) => [
      counter,
      ...scopes.map((scope) => `${scope}|${counter}`),
    ])
    return [...new Set([key, ...counters])]
  }
}

/** Returns the scope of a limit on a route. */
export function routeScope(name: string, route: Route): string {
  return limitScope(name, routeName(route))
}

/** Returns the scope of a limit on the route of a request, or on the requests that its not-found handler answers. */
export function requestScope(name: string, { routeOptions, server }: FastifyRequest): string {
  const { method, url = notFoundUrl(server.prefix), config } = routeOptions
  return routeScope(name, { method, url, config })
}

function notFoundUrl(prefix: string): string {
  return `${prefix}*`
}

function limitScope(name: string, route: string): string {
  return scopeFor(`route:${name}`, route)
}

/** Returns the name of a route: Fastify answers HEAD with the handler of GET, and `/a` is the same route as `/a/`. */
function routeName({ method, url, config }: Route): string {
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

/** Returns the scope of an override, by the id of its row: an edit keeps the count. */
export function overrideScope(id: number): string {
  return `override:${id}`
}

/** Returns the counters of overrides for a client, by its key in the log. */
export function countersForOverrides(overrides: OverrideSet, key: string): string[] {
  const client = toClient(key)
  if (client === undefined) return []
  return overrides
    .ratesFor(client)
    .flatMap(({ id }) => countersForKey(key).map((counter) => `${overrideScope(id)}|${counter}`))
}

/** Returns the counters of rules for a client that several kinds identify, by its key in the log. */
export function countersForRules(rules: readonly Rule[], key: string): string[] {
  return rules.flatMap(({ name, client }) =>
    client.kind === 'composite' && key.startsWith(`rule:${name}:`) ? countersForComposite(key, client.parts) : [],
  )
}

function toClient(key: string): ReturnType<typeof parseOverrideClient> | undefined {
  try {
    return parseOverrideClient(key)
  } catch {
    return undefined
  }
}
