/** Lists of clients: the main one of the dashboard, of clients or their networks, and those that were found. */
import { isNetwork } from '../../clients/client-networks.js'
import type { ClientCounts } from '../../reports/client-counts.js'
import type { Listing } from '../../reports/dashboard-clients.js'
import type { DashboardReport } from '../../reports/dashboard-report.js'
import type { ReportWindow } from '../../reports/report-window.js'
import { drawSparkline } from './chart.js'
import type { QuickActionsFor } from './client-menu.js'
import { countWords, formatCount, visible } from './format.js'
import { type Back, backTo, clientHref, dashboardHref, explainHref, type View } from './links.js'
import { groupNeighbours, type ListRow, toRow } from './neighbours.js'
import { stackOutcomes, toOutcomes } from './stack.js'
import type { Choice } from './time-selector.js'

/** The most policies that a row names. */
const MAX_POLICIES = 3

/** @param hasNetworks whether clients can be grouped by network */
export function clientList(report: DashboardReport, view: View, quickActions: QuickActionsFor, hasNetworks: boolean) {
  const { top_clients, top_networks } = report
  const choice = (text: string, listing: Listing): Choice => ({
    text,
    href: dashboardHref(view.window, view.filter, {
      ...view,
      onlyRefused: view.onlyRefused && listing.by === 'refused',
      listing,
    }),
    selected: listing.by === view.listing.by && listing.group === view.listing.group,
  })
  const { by, group } = view.listing
  return {
    // Where the list is empty.
    requests_href: choice('', { group, by: 'requests' }).href,
    clients_href: choice('', { by, group: 'client' }).href,
    by: [choice('Most refused', { group, by: 'refused' }), choice('Most requests', { group, by: 'requests' })],
    groups: hasNetworks
      ? [choice('Clients', { by, group: 'client' }), choice('Networks', { by, group: 'network' })]
      : [],
    by_requests: by === 'requests',
    is_grouped: group === 'network',
    // A reader who filters by a client has chosen it.
    rows: (view.filter.key === undefined ? groupNeighbours(top_clients, by) : top_clients.map(toRow)).map(
      (row, index) => ({
        rank: index + 1,
        ...listRow(row, view),
        quick: quickActions(row.name, row.policies),
      }),
    ),
    networks: top_networks.map(({ network, clients, ...counts }, index) => ({
      rank: index + 1,
      network: visible(network),
      href: clientHref(network, view.window, backTo(view)),
      quick: quickActions(network),
      clients: formatCount(clients),
      ...countCells(counts),
    })),
  }
}

function listRow({ name, members, policies, paths, why, ...listed }: ListRow, view: View) {
  const named = policies.slice(0, MAX_POLICIES).map(({ policy }) => visible(policy))
  const more = policies.length - named.length
  return {
    name: visible(name),
    href: clientHref(name, view.window, backTo(view)),
    members: members.map(({ client, ...counts }) => ({
      name: visible(client),
      href: clientHref(client, view.window, backTo(view)),
      counts: clientWords(counts),
    })),
    member_count: formatCount(members.length),
    policies: named,
    more_policies: more > 0 ? `and ${formatCount(more)} more` : '',
    paths: paths.map(visible),
    why_href: why && explainHref(why, { window: view.window, back: backTo(view) }, why.id),
    why_request: why && `${visible(why.method)} ${visible(why.path)}`,
    sparkline: drawSparkline(listed),
    ...countCells(listed),
  }
}

function clientWords({ requests, over_limit, would_be, denied }: ClientCounts): string {
  return countWords({ total: requests - denied, blocked: over_limit, would_block: would_be, denied })
}

function countCells({ requests, over_limit, would_be, denied }: ClientCounts) {
  return {
    requests: formatCount(requests),
    over_limit: formatCount(over_limit),
    would_be: formatCount(would_be),
    denied: formatCount(denied),
  }
}

/** Returns the rows of `found-clients.hbs`. */
export function foundClients(
  found: readonly (ClientCounts & { readonly client: string })[],
  window: ReportWindow,
  back: Back,
) {
  const most = Math.max(0, ...found.map(({ requests }) => requests))
  return found.map(({ client, ...counts }) => ({
    client: visible(client),
    href: clientHref(client, window, back),
    ...countCells(counts),
    segments: stackOutcomes(toOutcomes(counts), most),
    unlogged: counts.requests > 0 ? '' : unlogged(client),
  }))
}

/** Says why a client that a search spells has no numbers. */
function unlogged(client: string): string {
  return isNetwork(client) ? 'Its page adds up its clients' : 'No requests in this time'
}
