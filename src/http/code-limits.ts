/** The limits that the app's own code sets: no rule changes them, and no panel edits them. */
import { REQUESTS } from '../ground/unit.js'
import { type Rate, toRateText } from '../limiter/rate.js'
import { routeConstraints } from './code-counters.js'
import type { RateFunction } from './policy-limits.js'
import type { RouteWithLimit } from './routes/declared-routes.js'

/** A limit that the app's code sets. */
export interface CodeLimit {
  /** A prefix such as `/auth/`, `default`, `ceiling`, or the name of a limit of routes (`route` without one). */
  readonly policy: string
  /** The rate, such as `100/m`; null where a function of the request answers it. */
  readonly rate: string | null
  /** What the rate counts. */
  readonly unit: string
  /** The option that sets it. */
  readonly setting: 'rateLimits' | 'defaultRate' | 'ceiling' | 'route'
  /** The routes of a limit of routes, such as `POST /login`; empty for the others. */
  readonly routes: readonly string[]
}

export interface CodeLimitSettings {
  readonly rateLimits: Readonly<Record<string, string>>
  readonly defaultRate: string | RateFunction
  readonly unit: string
  readonly ceiling: Rate | undefined
}

/** Lists the limits in the order of deciding. Limits that are hooks of a whole scope are not known. */
export function listCodeLimits(
  { rateLimits, defaultRate, unit, ceiling }: CodeLimitSettings,
  routes: readonly RouteWithLimit[],
): CodeLimit[] {
  const prefixes = Object.entries(rateLimits)
    .toSorted(([one], [other]) => other.length - one.length)
    .map(([policy, rate]): CodeLimit => ({ policy, rate, unit, setting: 'rateLimits', routes: [] }))
  const ofAll: CodeLimit = {
    policy: 'default',
    rate: typeof defaultRate === 'string' ? defaultRate : null,
    unit,
    setting: 'defaultRate',
    routes: [],
  }
  const ofAddresses: CodeLimit[] =
    ceiling === undefined
      ? []
      : [{ policy: 'ceiling', rate: toRateText(ceiling), unit: REQUESTS, setting: 'ceiling', routes: [] }]
  return [...prefixes, ofAll, ...ofAddresses, ...routeLimits(routes)]
}

/** Lists limits with one name and rate once, with all their routes: each GET route has a HEAD route beside it. */
function routeLimits(routes: readonly RouteWithLimit[]): CodeLimit[] {
  const listed = new Map<string, { readonly limit: RouteWithLimit['limit']; readonly names: Set<string> }>()
  for (const { route, limit } of routes) {
    const alike = JSON.stringify([limit.policy, limit.rate, limit.unit])
    const { names } = listed.get(alike) ?? { names: new Set<string>() }
    listed.set(alike, { limit, names })
    for (const method of [route.method].flat()) names.add(`${method} ${route.url}${routeConstraints(route.config)}`)
  }
  return [...listed.values()].map(({ limit: { policy, rate, unit }, names }) => {
    return { policy, rate, unit, setting: 'route', routes: withoutHead(names) }
  })
}

function withoutHead(names: ReadonlySet<string>): string[] {
  return [...names].filter((name) => !name.startsWith('HEAD ') || !names.has(name.replace('HEAD', 'GET')))
}
