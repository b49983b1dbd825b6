import type { FastifyRequest, FastifySchema } from 'fastify'

/** The names of the staff routes. Other programs may rely on the first three. */
export type StaffRouteName =
  | 'dashboard'
  | 'live-script'
  | 'offenders-csv'
  | 'clients-csv'
  | 'offender-detail'
  | 'offender-page'
  | 'client-page'
  | 'client-search'
  | 'client-block'
  | 'client-raise'
  | 'client-allow'
  | 'client-end'
  | 'explain'
  | 'rules'
  | 'rule-form'
  | 'sign-in'
  | 'sign-out'
  | 'not-found'

/** The routes that answer with a page, at addresses where relative links to the other pages are right. */
const PAGE_ROUTES: readonly unknown[] = [
  'dashboard',
  'offender-page',
  'client-page',
  'client-search',
  'client-block',
  'client-raise',
  'client-allow',
  'client-end',
  'explain',
  'rules',
  'rule-form',
  'sign-in',
  'sign-out',
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
  return PAGE_ROUTES.includes(staffRouteName(request))
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
