import type { FastifyRequest, FastifySchema } from 'fastify'

/**
 * The staff routes, by their names, with the page of the navigation that they belong to; null where there is none. Other
 * programs may rely on the first three names. All but `OTHER_ROUTES` answer with a page, at addresses where relative
 * links to the other pages are right.
 */
const STAFF_ROUTES = {
  dashboard: './',
  incident: './',
  'incident-ignore': './',
  'offenders-csv': null,
  'offender-detail': null,
  'clients-csv': null,
  'live-script': null,
  'offender-page': null,
  clients: 'clients.html',
  'client-page': 'clients.html',
  'client-block': 'clients.html',
  'client-raise': 'clients.html',
  'client-allow': 'clients.html',
  'client-end': 'clients.html',
  search: null,
  events: 'events.html',
  'events-csv': null,
  explain: 'explain.html',
  rules: 'rules.html',
  rule: 'rules.html',
  'raise-form': 'clients.html',
  'rule-form': 'rules.html',
  'rules-bulk': 'rules.html',
  'rule-switch': 'rules.html',
  overrides: 'overrides.html',
  override: 'overrides.html',
  'overrides-bulk': 'overrides.html',
  changes: 'changes.html',
  'change-revert': 'changes.html',
  exchange: 'exchange.html',
  export: null,
  counters: 'counters.html',
  usage: 'usage.html',
  'usage-csv': null,
  alerts: 'alerts.html',
  tokens: 'tokens.html',
  'sign-in': null,
  'sign-out': null,
  'not-found': null,
} as const

export type StaffRouteName = keyof typeof STAFF_ROUTES

const OTHER_ROUTES: readonly unknown[] = [
  'offenders-csv',
  'offender-detail',
  'clients-csv',
  'usage-csv',
  'events-csv',
  'live-script',
  'export',
  'not-found',
] satisfies StaffRouteName[]

/** Returns the options of a staff route: no rule applies, and HEAD works whatever the host's `exposeHeadRoutes` is. */
export function staffRoute(name: StaffRouteName) {
  return { exposeHeadRoute: true, config: { smartRateLimit: false, name }, schema: hiddenSchema() } as const
}

/** Returns a schema that keeps a route out of the OpenAPI document of `@fastify/swagger`. */
export function hiddenSchema(): FastifySchema & { readonly hide: true } {
  return { hide: true }
}

export function isPageRoute(request: FastifyRequest): boolean {
  const name = staffRouteName(request)
  return isStaffRoute(name) && !OTHER_ROUTES.includes(name)
}

/** Returns the page of the navigation that a request belongs to, relative to the dashboard. */
export function presentPage(request: FastifyRequest): string | undefined {
  const name = staffRouteName(request)
  return isStaffRoute(name) ? (STAFF_ROUTES[name] ?? undefined) : undefined
}

function isStaffRoute(name: unknown): name is StaffRouteName {
  return typeof name === 'string' && Object.hasOwn(STAFF_ROUTES, name)
}

/** Returns whether the answer is a page; programs receive JSON. */
export function wantsPage(request: FastifyRequest): boolean {
  const name = staffRouteName(request)
  return isPageRoute(request) || (name === 'not-found' && /\btext\/html\b/.test(request.headers.accept ?? ''))
}

/** Returns the registered name of a route; the host's routes may have names of any type. */
export function staffRouteName({ routeOptions: { config } }: FastifyRequest): unknown {
  return 'name' in config ? config.name : undefined
}
