import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { type AddressLists, type ClientAddress, createAddressResolver, isPrivate } from './client-address.js'

/** Where requests come from: the client, as `trustProxy` decides, and the socket's peer. */
export interface RequestAddresses {
  client(request: FastifyRequest): ClientAddress
  /** The peer's address for the log; null for a Unix socket. */
  peer(request: FastifyRequest): string | null
}

/** Warns, once each, when addresses cannot be told apart as the operator surely wants them to be. */
export function createRequestAddresses(
  ipv6Subnet: number,
  lists: AddressLists,
  log: FastifyBaseLogger,
): RequestAddresses {
  const resolve = createAddressResolver(ipv6Subnet, lists)
  let warnsOfForwarding = true
  let warnsOfUnknown = true

  // The classic mistake behind a proxy: every client is then counted as the proxy.
  function checkForwarding({ headers }: FastifyRequest, ip: string, peer: string | undefined): void {
    if (ip !== peer || (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined)) return
    const { plain } = resolve(peer, undefined)
    if (plain === null || !isPrivate(plain)) return
    warnsOfForwarding = false
    log.warn(
      `Rate limits count the proxy ${plain} as the client: requests come from it with a forwarding header that is not trusted. Set Fastify's trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8'], not a number`,
    )
  }

  return {
    client(request) {
      const { ip } = request
      const peer = request.socket.remoteAddress
      if (warnsOfForwarding) checkForwarding(request, ip, peer)
      const address = resolve(ip, peer)
      if (address.plain === null && warnsOfUnknown) {
        warnsOfUnknown = false
        log.warn('Rate limits count requests without any address together, as ip:unknown')
      }
      return address
    },

    peer: (request) => resolve(request.socket.remoteAddress, undefined).plain,
  }
}
