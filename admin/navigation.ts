import type { FastifyRequest } from 'fastify'
import { type Internals, nearestMount } from '../src/plugin/internals.js'
import { type Navigation, type NavigationLink, navigationLinks, PANEL_LINKS } from '../src/staff/shell/navigation.js'
import { requestedPath } from '../src/staff/shell/request-query.js'
import type { StaffRole } from '../src/staff/shell/roles.js'
import type { AdminResource } from './resources/resource.js'

/**
 * Creates the navigation of the panel's pages: the links of every staff page, and below them the panel's own.
 *
 * @param mount the path of the panel
 */
export function createPanelNavigation(
  { mounts }: Internals,
  mount: string,
  resources: readonly AdminResource[],
  canSignOut: boolean,
) {
  const shared: readonly string[] = PANEL_LINKS.map(({ resource }) => resource)
  const own = resources.filter(({ resource }) => !shared.includes(resource.id())).map(toLink)
  const isCounter = ({ group }: (typeof own)[number]) => group !== null
  const sections = [
    {
      links: [
        { text: TEXTS.labels.dashboard, href: mount },
        ...own.filter((link) => !isCounter(link)),
        { text: TEXTS.pages.exchange, href: `${mount}/pages/exchange` },
      ],
    },
    { name: 'Counters:', links: own.filter(isCounter) },
  ]

  function toLink({ resource, options }: AdminResource) {
    const name = resource.id()
    const { navigation, translations } = options
    const group = typeof navigation === 'object' ? (navigation?.name ?? null) : null
    const text = String(Reflect.get(Object(translations?.en?.labels), name) ?? name)
    return { text, href: `${mount}/resources/${name}`, group }
  }

  return function navigation(request: FastifyRequest, role: StaffRole): Navigation {
    const path = requestedPath(request)
    const dashboard = nearestMount(mounts.dashboards, mount)
    const marked = (links: readonly NavigationLink[]) =>
      links.map((link) => ({ ...link, current: isAt(path, link, mount) }))
    return {
      links: marked(navigationLinks(dashboard, mount, role)),
      sections: sections.map((section) => ({ ...section, links: marked(section.links) })),
      ...(dashboard !== undefined && { search: `${dashboard}search.html` }),
      ...(canSignOut && { sign_out: `${mount}/sign-out` }),
    }
  }
}

/** Returns whether a page belongs to a link: its address, or one below it, except for the panel's first page. */
function isAt(path: string, { href }: NavigationLink, mount: string): boolean {
  return path === href || (href === mount ? path === `${mount}/` : path.startsWith(`${href}/`))
}

/** Texts of the panel in place of AdminJS's own. */
export const TEXTS = {
  labels: { navigation: 'Rate limits', dashboard: 'Overview' },
  pages: { exchange: 'Import and export' },
  messages: {
    successfullyCreated: 'Saved.',
    successfullyUpdated: 'Saved.',
    successfullyDeleted: 'Deleted.',
    thereWereValidationErrors: 'Not saved: see the fields marked below.',
    errorFetchingRecords:
      'The list cannot be loaded: the server does not answer, or you are signed out. Reload the page.',
    errorFetchingRecord: 'This row cannot be read: the server does not answer, or you are signed out. Reload the page.',
    noRecords: 'Nothing here',
  },
}
