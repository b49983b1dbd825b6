import { parseOverrideClient } from '../rules/override.js'
import type { OverrideSet } from '../rules/override-set.js'
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
