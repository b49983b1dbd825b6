import type { FastifyRequest, FastifySchema } from 'fastify'

/** The staff routes by name. The first three are the ones that other programs may rely on. */
export type StaffRouteName =
  | 'dashboard'
  | 'offenders-csv'
  | 'offender-detail'
  | 'offender-page'
  | 'sign-in'
  | 'sign-out'
  | 'not-found'

/** What answers with a page, and lies where relative links to the other pages are right. */
const PAGE_ROUTES: readonly unknown[] = ['dashboard', 'offender-page', 'sign-in', 'sign-out'] satisfies StaffRouteName[]

/** The options of a staff route: no rule applies to it, and HEAD works whatever the host's `exposeHeadRoutes` says. */
export function staffRoute(name: StaffRouteName) {
  return { exposeHeadRoute: true, config: { smartRateLimit: false, name }, schema: hiddenSchema() } as const
}

/** Keeps a route out of the OpenAPI document that `@fastify/swagger` makes of the host. */
export function hiddenSchema(): FastifySchema & { readonly hide: true } {
  return { hide: true }
}

export function isPageRoute(request: FastifyRequest): boolean {
  return PAGE_ROUTES.includes(routeName(request))
}

/** Whether an answer is read by a person: elsewhere than on the pages, JSON is the better answer. */
export function wantsPage(request: FastifyRequest): boolean {
  const name = routeName(request)
  return isPageRoute(request) || (name === 'not-found' && /\btext\/html\b/.test(request.headers.accept ?? ''))
}

/** The name a route was registered with; a host may name its own routes in a way of its own. */
export function routeName({ routeOptions: { config } }: FastifyRequest): unknown {
  return 'name' in config ? config.name : undefined
}
