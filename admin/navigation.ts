import type { FastifyRequest } from 'fastify'
import { nearestMount, type StaffMounts } from '../src/plugin/staff-mounts.js'
import { type Navigation, navigationLinks } from '../src/staff/shell/navigation.js'
import type { StaffRole } from '../src/staff/shell/roles.js'

/**
 * Creates the navigation above the panel's pages: the links of every staff page, which lead to what the panel lacks.
 *
 * @param mount the path of the panel
 */
export function createPanelNavigation(mounts: StaffMounts, mount: string, canSignOut: boolean) {
  return function navigation(_request: FastifyRequest, role: StaffRole): Navigation {
    const dashboard = nearestMount(mounts.dashboards, mount)
    return {
      links: navigationLinks(dashboard, mount, role).map((link) => ({ ...link, current: link.href === mount })),
      ...(dashboard !== undefined && { search: `${dashboard}search.html` }),
      ...(canSignOut && { sign_out: `${mount}/sign-out` }),
    }
  }
}

/** Texts of the panel in place of AdminJS's own. */
export const TEXTS = {
  messages: {
    successfullyCreated: 'Saved.',
    successfullyUpdated: 'Saved.',
    successfullyDeleted: 'Deleted.',
    thereWereValidationErrors: 'Not saved: see the fields marked below.',
    errorFetchingRecords:
      'The list cannot be loaded: the server does not answer, or you are signed out. Reload the page.',
  },
}
