import { clientAddress } from '../../clients/client-networks.js'
import type { Geo } from '../../clients/geo.js'
import { firstAddress } from '../../clients/network.js'

/**
 * Returns the country and the network operator of a client that is an address or a network, such as `DE · AS64500
 * Example`; empty for another client, and where the app's files do not know them.
 */
export function whereabouts(client: string, geo: Geo | undefined): string {
  const network = clientAddress(client)
  if (geo === undefined || network === undefined) return ''
  const ip = firstAddress(network)
  const { asn, name } = geo.operator(ip)
  return [geo.country(ip), asn === 0n ? '' : `AS${asn} ${name}`.trim()].filter((part) => part !== '').join(' · ')
}
