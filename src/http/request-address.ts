import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { messageOf } from '../errors.js'
import { type AddressLists, type ClientAddress, createAddressResolver, GONE, isPrivate } from './client-address.js'

/** Where requests come from: the client, as `trustProxy` decides, and the socket's peer. */
export interface RequestAddresses {
  client(request: FastifyRequest): ClientAddress
  /** The peer's address for the log; null for a Unix socket. */
  peer(request: FastifyRequest): string | null
}

/**
 * Reads the address of each connection when it is made. Node.js keeps it from then on, and cannot read it any more when
 * the client has hung up, as it may have when the check runs after hooks that wait.
 */
export function readPeers(server: EventEmitter): void {
  const readPeer = ({ remoteAddress }: Socket) => remoteAddress
  server.on('connection', readPeer)
  server.on('secureConnection', readPeer)
}

/** Whether a socket without an address has lost it: one over TCP whose client hung up, or an HTTP/2 stream that was reset. */
function isGone({ destroyed, localAddress }: Socket): boolean {
  return destroyed || localAddress !== undefined
}

/** Warns, once each, when addresses cannot be told apart as the operator surely wants them to be. */
export function createRequestAddresses(
  ipv6Subnet: number,
  lists: AddressLists,
  log: FastifyBaseLogger,
): RequestAddresses {
  const resolve = createAddressResolver(ipv6Subnet, lists)
  let warnsOfForwarding = true
  let warnsOfTrustProxy = true
  let warnsOfUnknown = true

  // The classic mistake behind a proxy: every client is then counted as the proxy.
  function checkForwarding({ headers }: FastifyRequest, ip: string | undefined, peer: string | undefined): void {
    if (ip !== peer || (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined)) return
    const { plain } = resolve(peer, undefined)
    if (plain === null || !isPrivate(plain)) return
    warnsOfForwarding = false
    log.warn(
      `Rate limits count the proxy ${plain} as the client: requests come from it with a forwarding header that is not trusted. Set Fastify's trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8'], not a number`,
    )
  }

  /** What `trustProxy` makes of a request; a function of the host's that fails trusts nothing. */
  function trustedIp(request: FastifyRequest): string | undefined {
    try {
      return request.ip
    } catch (error) {
      if (warnsOfTrustProxy) {
        warnsOfTrustProxy = false
        log.error(
          { err: error },
          `Fastify's trustProxy failed: ${messageOf(error)}. Limits count the peer of such requests`,
        )
      }
      return undefined
    }
  }

  return {
    client(request) {
      const { socket } = request
      const peer = socket.remoteAddress
      if (peer === undefined && isGone(socket)) return GONE
      const ip = trustedIp(request)
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
