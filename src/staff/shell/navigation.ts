/** The navigation that dashboard, sign-in and panel share. */
import { mayDo, type Right, type StaffRole } from './roles.js'

export interface NavigationLink {
  readonly text: string
  readonly href: string
  /** Whether the link is to the page that shows it. */
  readonly current?: boolean
}

/** The context of `navigation.hbs`. */
export interface Navigation {
  readonly links: readonly NavigationLink[]
  /** The window and the filter of a page of the dashboard, as the hidden fields of its forms. */
  readonly kept?: readonly { readonly name: string; readonly value: string }[]
  /** The page that finds a client; absent where there is no dashboard. */
  readonly search?: string | undefined
  /** The name of the signed-in account; empty where the host has its own sign-in. */
  readonly account?: string
  /** The address of the form to sign out; absent where the host has its own sign-in. */
  readonly sign_out?: string
}

/** The navigation of a page for strangers. */
export const NO_NAVIGATION: Navigation = { links: [] }

/** The pages of the dashboard that every page links to, relative to it, in their order. */
const DASHBOARD_LINKS: readonly { readonly text: string; readonly page: string; readonly right?: Right }[] = [
  { text: 'Dashboard', page: '' },
  { text: 'Clients', page: 'clients.html' },
  { text: 'Events', page: 'events.html' },
  { text: 'Rules', page: 'rules.html' },
  { text: 'Overrides and bans', page: 'overrides.html' },
  { text: 'Changes', page: 'changes.html' },
  { text: 'Explain', page: 'explain.html' },
  { text: 'Counters', page: 'counters.html' },
  { text: 'Usage', page: 'usage.html' },
  { text: 'Alerts', page: 'alerts.html' },
  { text: 'Import and export', page: 'exchange.html' },
  { text: 'Tokens', page: 'tokens.html', right: 'writeTokens' },
]

/**
 * Returns the links of every staff page, in their order.
 *
 * @param dashboard the address of the dashboard, with a slash at its end; undefined where there is none
 * @param panel the root path of the panel; undefined where there is none
 * @param role of who sees them
 */
export function navigationLinks(
  dashboard: string | undefined,
  panel: string | undefined,
  role: StaffRole,
): NavigationLink[] {
  return [
    ...(dashboard === undefined
      ? []
      : DASHBOARD_LINKS.filter(({ right = 'read' }) => mayDo(role, right)).map(({ text, page }) => ({
          text,
          href: dashboard + page,
        }))),
    ...(panel === undefined ? [] : [{ text: 'Panel', href: panel }]),
  ]
}
