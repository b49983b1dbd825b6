import { parseOverrideClient } from '../overrides/override.js'
import type { OverrideSet } from '../overrides/override-set.js'
import { countersOfKey, scopeFor } from './client-key.js'

/** More are there only where a rate function answers with ever new periods. */
const MAX_PERIODS = 1_000

export interface Route {
  readonly method?: string | readonly string[] | undefined
  readonly url?: string | undefined
}

/** What parts the counters of one client: the prefix, the period or the route that they belong to. */
export class CounterScopes {
  readonly #prefixes = new Set<string>()
  readonly #periods = new Set<string>()
  readonly #routes = new Set<string>()
  /** Of the limits for single routes. */
  readonly #limitNames = new Set<string>()

  addPrefix(prefix: string): string {
    const scope = scopeFor(prefix)
    this.#prefixes.add(scope)
    return scope
  }

  addPeriod(periodMs: number): string {
    const scope = `per:${periodMs}`
    if (this.#periods.size < MAX_PERIODS) this.#periods.add(scope)
    return scope
  }

  addRoute(route: Route): void {
    this.#routes.add(routeName(route))
  }

  addLimit(name: string): void {
    this.#limitNames.add(name)
  }

  /** All counters of a client, by the key that the log has; also the counter of that very name. */
  countersOf(key: string): readonly string[] {
    const ofRoutes = [...this.#limitNames].flatMap((name) =>
      [...this.#routes].flatMap((route) => [...this.#periods].map((period) => `${period}|${limitScope(name, route)}`)),
    )
    const scopes = [...this.#prefixes, ...this.#periods, ...ofRoutes]
    const counters = countersOfKey(key).flatMap((counter) => [counter, ...scopes.map((scope) => `${scope}|${counter}`)])
    return [...new Set([key, ...counters])]
  }
}

/** The scope of a route. */
export function routeScope(name: string, route: Route): string {
  return limitScope(name, routeName(route))
}

function limitScope(name: string, route: string): string {
  return scopeFor(`route:${name}`, route)
}

/** What a route is called: Fastify answers HEAD with the handler of GET, and `/a` is one route with `/a/`. */
export function routeName({ method, url = '*' }: Route): string {
  const methods = [method ?? []].flat().map((each) => (each === 'HEAD' ? 'GET' : each))
  return `${[...new Set(methods)].sort().join(',')} ${url.replace(/(?<=.)\/$/, '')}`
}

/** The scope of an override, by the id of its row: an edit keeps what was counted. */
export function overrideScope(id: number): string {
  return `override:${id}`
}

/** The counters that overrides have for a client, by the key that the log has. */
export function countersOfOverrides(overrides: OverrideSet, key: string): string[] {
  const client = clientOf(key)
  if (client === undefined) return []
  return overrides
    .ratesOf(client)
    .flatMap(({ id }) => countersOfKey(key).map((counter) => `${overrideScope(id)}|${counter}`))
}

function clientOf(key: string): ReturnType<typeof parseOverrideClient> | undefined {
  try {
    return parseOverrideClient(key)
  } catch {
    return undefined
  }
}
