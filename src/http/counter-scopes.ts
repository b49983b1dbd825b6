import { countersOfKey } from './client-key.js'

/** More are there only where a rate function answers with ever new periods. */
const MAX_SCOPES = 1_000

/** What parts the counters of one client: the prefix, the period or the route that they belong to. */
export class CounterScopes {
  readonly #scopes = new Set<string>()
  readonly #routes = new Set<string>()

  add(scope: string): void {
    if (this.#scopes.size < MAX_SCOPES) this.#scopes.add(scope)
  }

  addRoute(scope: string): void {
    this.#routes.add(scope)
  }

  /** All counters of a client, by the key that the log has; also the counter of that very name. */
  countersOf(key: string): ReadonlySet<string> {
    const counters = new Set([key])
    for (const counter of countersOfKey(key)) {
      for (const route of ['', ...this.#routes]) {
        const counted = route === '' ? counter : `${route}|${counter}`
        counters.add(counted)
        for (const scope of this.#scopes) counters.add(`${scope}|${counted}`)
      }
    }
    return counters
  }
}

interface Route {
  readonly method?: string | readonly string[] | undefined
  readonly url?: string | undefined
}

/** The scope of a route. Fastify answers HEAD with the handler of GET, and `/a` is one route with `/a/`. */
export function routeScope(name: string, { method, url = '*' }: Route): string {
  const methods = [method ?? []].flat().map((each) => (each === 'HEAD' ? 'GET' : each))
  return `route:${name}:${[...new Set(methods)].sort().join(',')} ${url.replace(/(?<=.)\/$/, '')}`
}
