/** The clients that a text means, as the search and the page of a client take it. */
import { CLIENT_BEGINNING, splitKey } from '../../../clients/client.js'
import { isNetwork } from '../../../clients/client-networks.js'
import { bareAddress } from '../../../clients/network.js'
import { type ClientDetail, clientDetail } from '../../../reports/client-detail.js'
import { type FoundClient, findClients } from '../../../reports/find-clients.js'
import type { ReportWindow } from '../../../reports/report-window.js'
import type { PageRoutes } from '../page-routes.js'

/** Returns whether a text names a client by its kind; any other text may be an id, an address, or a word. */
export function isSpelledClient(text: string): boolean {
  return CLIENT_BEGINNING.test(text)
}

/** Returns whether nothing is known of a client: no request of the window, no override and no history of one. */
export function isUnknown({ requests, history, overrides }: ClientDetail): boolean {
  return requests === 0 && history.length === 0 && overrides.length === 0
}

/**
 * Finds the clients that are meant: not those that a text spells, but of which nothing is known, since a word may be
 * anything.
 *
 * @param limit the most clients to return
 */
export async function findMeantClients(
  read: PageRoutes['read'],
  text: string,
  window: ReportWindow,
  limit: number,
): Promise<readonly FoundClient[]> {
  const found = await read(findClients({ text, ...window, limit }))
  // The page of a network lists the clients in it, and can block all of them.
  const whole = found.find(({ client, is_exact }) => is_exact && (isNetwork(client) || isByField(client)))
  if (whole !== undefined) return [whole]
  const active = found.filter(({ requests }) => requests > 0)
  if (active.length > 0) return active
  // An address has a page before its first request, too.
  if (isSpelledClient(text) || found.some(({ client }) => isAddressOf(client))) return found
  const details = await Promise.all(found.map(({ client }) => read(clientDetail({ client, ...window, recent: 1 }))))
  return found.filter((_, index) => {
    const detail = details[index]
    return detail !== undefined && !isUnknown(detail)
  })
}

/** Returns whether a text can only mean the one client that was found for it: an address, a client, a key of the log. */
export function isClientText(text: string): boolean {
  const [address = ''] = text.split('/')
  return isSpelledClient(text) || bareAddress(address) !== undefined || splitKey(text).rule !== undefined
}

/** Returns whether a client is a field of users: the log has its requests under their addresses or users. */
export function isByField(client: string): boolean {
  return client.startsWith('user.')
}

function isAddressOf(client: string): boolean {
  return client.startsWith('ip:')
}
