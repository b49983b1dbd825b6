import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import { errorMessage } from '../errors.js'
import type { AddressPrivacy } from '../privacy/address-privacy.js'
import {
  type AddressLists,
  type ClientAddress,
  createAddressResolver,
  GONE,
  isPrivate,
  parsePseudonym,
} from './client-address.js'

/** The addresses of requests: that of the client, as `trustProxy` decides, and that of the socket's peer. */
export interface RequestAddresses {
  client(request: FastifyRequest): ClientAddress
  /** Returns the address that an operator's text spells, or the client of a pseudonym. */
  parse(text: string | undefined): ClientAddress
  /** Returns the peer's address for the log; null for a Unix socket. */
  peer(request: FastifyRequest): string | null
}

/**
 * Reads the address of each new connection. Node.js then remembers it; it could not read it after the client has hung
 * up, as may happen when the check runs after hooks that wait.
 */
export function readPeers(server: EventEmitter): void {
  const readPeer = ({ remoteAddress }: Socket) => remoteAddress
  server.on('connection', readPeer)
  server.on('secureConnection', readPeer)
}

/** Returns whether a socket has lost its address: the TCP client hung up, or the HTTP/2 stream was reset. */
function isGone({ destroyed, localAddress }: Socket): boolean {
  return destroyed || localAddress !== undefined
}

/** Creates the address functions. They warn, once each, of setups that count clients together by mistake. */
export function createRequestAddresses(
  ipv6Subnet: number,
  lists: AddressLists,
  log: FastifyBaseLogger,
  privacy?: AddressPrivacy,
): RequestAddresses {
  const resolve = createAddressResolver(ipv6Subnet, lists, privacy)
  let warnsOfForwarding = true
  let warnsOfTrustProxy = true
  let warnsOfUnknown = true

  // A common mistake behind a proxy: every client is counted as the proxy.
  function warnOfForwarding({ headers }: FastifyRequest, ip: string | undefined, peer: string | undefined): void {
    if (ip !== peer || (headers['x-forwarded-for'] === undefined && headers.forwarded === undefined)) return
    const { plain, loggedPeer } = resolve(peer, undefined)
    if (plain === null || !isPrivate(plain)) return
    warnsOfForwarding = false
    log.warn(
      `Rate limits count the proxy ${loggedPeer} as the client: requests come from it with a forwarding header that is not trusted. Set Fastify's trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8'], not a number`,
    )
  }

  /** Returns the address that `trustProxy` finds; a host's function that fails trusts nothing. */
  function trustedIp(request: FastifyRequest): string | undefined {
    try {
      return request.ip
    } catch (error) {
      if (warnsOfTrustProxy) {
        warnsOfTrustProxy = false
        log.error(
          { err: error },
          `Fastify's trustProxy failed: ${errorMessage(error)}. Limits count the peer of such requests`,
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
      if (warnsOfForwarding) warnOfForwarding(request, ip, peer)
      const address = resolve(ip, peer)
      if (address.plain === null && warnsOfUnknown) {
        warnsOfUnknown = false
        log.warn('Rate limits count requests without any address together, as ip:unknown')
      }
      return address
    },

    parse: (text) => (privacy && text && parsePseudonym(text)) || resolve(text, undefined),

    peer: (request) => resolve(request.socket.remoteAddress, undefined).loggedPeer,
  }
}
