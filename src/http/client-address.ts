import type { EventEmitter } from 'node:events'
import { BlockList, type Socket } from 'node:net'
import type { FastifyBaseLogger, FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { type AddressPrivacy, PSEUDONYM, toCountedAddress } from '../clients/address-privacy.js'
import { countAddress, type LimitClient } from '../clients/limit-client.js'
import { type NamedLists, referredList, unknownList } from '../clients/named-lists.js'
import { bareAddress, networksMeet, type ParsedNetwork, parseAddress, parseNetwork } from '../clients/network.js'
import { errorMessage, InvalidSettingError } from '../ground/errors.js'
import { ClientMemory, memoize, rememberClients } from '../ground/remember.js'

/** The address of a request's client, as limits use it. */
export interface ClientAddress {
  /** The client's address in the log, for IPv6 its network; `unknown` where there is none. */
  readonly logged: string
  /** The whole address in the log, where it is that of the socket's peer; null where there is none. */
  readonly loggedPeer: string | null
  /** The pseudonym that counters and bans have instead of the address; null where they have the address. */
  readonly pseudonym: string | null
  /** The client of limits by address, created once, since every request would otherwise allocate a text. */
  readonly client: LimitClient
  /** The whole address, IPv6 too; null where there is none. */
  readonly plain: string | null
  /** The list that has the address. */
  readonly listed: 'allow' | 'deny' | null
  /**
   * The proxy whose word for the client is not understood; null where the address is the client's. It is counted
   * instead, and what denies it holds. What exempts it does not: it may be told anything by a client.
   */
  readonly relay: ClientAddress | null
}

/** The addresses and networks of a setting, and the names of the lists beside them. */
export interface AddressEntries {
  readonly networks: readonly ParsedNetwork[]
  readonly names: readonly string[]
}

export interface AddressLists {
  readonly allow: AddressEntries
  readonly deny: AddressEntries
  readonly named: NamedLists
}

const UNKNOWN = createAddress('unknown', null, null)
/**
 * A client whose connection was gone before its address was read. It is refused like one of the deny list: the
 * lists and overrides cannot be applied without an address, and the client waits for no answer.
 */
export const DISCONNECTED = createAddress('unknown', null, 'deny')
/** The number of characters that are logged of a text that is no address. */
const SHOWN_LENGTH = 60

/** Returns an address in its usual spelling, IPv6 that stands for IPv4 as IPv4; null for other texts. */
export function plainIp(text: string): string | null {
  const address = bareAddress(text)
  return address === undefined ? null : parseAddress(address).toString()
}

/**
 * Creates the function that resolves the address of a client from a text; undefined where that is no address.
 *
 * @param ipv6Subnet the number of leading bits of an IPv6 address that make one client; 128 for all
 * @param privacy how addresses are stored; undefined where they are stored in full
 */
export function createAddressResolver(ipv6Subnet: number, lists: AddressLists, privacy?: AddressPrivacy) {
  const { named } = lists
  const isAllowed = createTest(lists.allow, named)
  const isDenied = createTest(lists.deny, named)

  function parse(text: string): ClientAddress | undefined {
    const ip = plainIp(text)
    if (ip === null) return undefined
    const counted = toCountedAddress(ip, ipv6Subnet)
    const listed = isDenied(ip) ? 'deny' : isAllowed(ip) ? 'allow' : null
    return privacy === undefined
      ? createAddress(counted, ip, listed)
      : createPrivateAddress(counted, ip, listed, privacy)
  }

  if (lists.allow.names.length === 0 && lists.deny.names.length === 0) return rememberClients(parse)
  let resolve = rememberClients(parse)
  named.onReplaced(() => {
    resolve = rememberClients(parse)
  })
  return (text: string) => resolve(text)
}

/** Creates the function that returns whether entries, or the lists that they name, have an address. */
function createTest({ networks, names }: AddressEntries, named: NamedLists): (ip: string) => boolean {
  const list = new BlockList()
  for (const { address, bits, family } of networks) list.addSubnet(address, bits, family)
  const isEntry = (ip: string) => list.check(ip, familyFor(ip))
  return names.length === 0 ? isEntry : (ip) => isEntry(ip) || names.some((name) => named.includes(name, ip))
}

/** Returns whether entries, or the lists that they name, have an address of a network. */
export function meetsEntries({ networks, names }: AddressEntries, named: NamedLists, network: ParsedNetwork): boolean {
  return networks.some((each) => networksMeet(each, network)) || names.some((name) => named.meets(name, network))
}

/** Creates the function that adds an allow list of a limit's own: an address that the plugin's lists have stays as it is. */
export function createAllowList(entries: AddressEntries, named: NamedLists): (address: ClientAddress) => ClientAddress {
  if (!hasEntries(entries)) return (address) => address
  const isAllowed = createTest(entries, named)
  let addresses = new ClientMemory<ClientAddress>()
  if (entries.names.length > 0) {
    named.onReplaced(() => {
      addresses = new ClientMemory()
    })
  }
  return function withList(address) {
    const { plain, listed } = address
    if (plain === null || listed !== null) return address
    const allowed = (): ClientAddress => (isAllowed(plain) ? { ...address, listed: 'allow' } : address)
    return addresses.values.get(plain) ?? addresses.keep(plain, allowed())
  }
}

function createAddress(counted: string, plain: string | null, listed: ClientAddress['listed']): ClientAddress {
  const client = countAddress(counted)
  return { logged: counted, loggedPeer: plain, pseudonym: null, client, plain, listed, relay: null }
}

function createPrivateAddress(
  counted: string,
  plain: string,
  listed: ClientAddress['listed'],
  privacy: AddressPrivacy,
): ClientAddress {
  const pseudonym = privacy.pseudonymFor(counted)
  const logged = privacy.loggedFor(counted)
  const client = countAddress(counted, logged, pseudonym)
  return { logged, loggedPeer: logged, pseudonym, client, plain, listed, relay: null }
}

/** Creates the address of a client that a proxy forwards in a text that is none. */
function createUnread(relay: ClientAddress): ClientAddress {
  const listed = relay.listed === 'deny' ? 'deny' : null
  return { ...relay, plain: null, pseudonym: null, listed, relay }
}

/** Returns the client of a pseudonym, whose address is not known; undefined for another text. */
function parsePseudonym(text: string): ClientAddress | undefined {
  return PSEUDONYM.test(text) ? { ...createAddress(text, null, null), pseudonym: text } : undefined
}

function familyFor(ip: string): 'ipv4' | 'ipv6' {
  return ip.includes(':') ? 'ipv6' : 'ipv4'
}

/** Returns whether an address is private: proxies have such addresses, and clients on the internet do not. */
export function isPrivate(ip: string): boolean {
  return ['private', 'loopback', 'uniqueLocal', 'linkLocal', 'carrierGradeNat'].includes(ipaddr.process(ip).range())
}

/**
 * Parses a list of addresses, CIDR networks and `list:<name>`. An IPv4 entry also covers the IPv4-mapped IPv6 spelling.
 *
 * @throws InvalidSettingError naming the setting and the entry
 */
export function parseAddressList(setting: string, entries: readonly string[]): AddressEntries {
  const networks: ParsedNetwork[] = []
  const names: string[] = []
  for (const entry of entries) {
    const name = referredList(entry)
    if (name === undefined) networks.push(parseEntry(setting, entry))
    else names.push(name)
  }
  return { networks, names }
}

/** Returns whether there are any networks, or names of lists. */
export function hasEntries({ networks, names }: AddressEntries): boolean {
  return networks.length > 0 || names.length > 0
}

/** @throws InvalidSettingError where entries name a list that does not exist */
export function requireLists(
  setting: string,
  { names }: AddressEntries,
  named: Pick<NamedLists, 'has' | 'names'>,
): void {
  for (const name of names) {
    if (!named.has(name))
      throw new InvalidSettingError(`Setting "${setting}" has a wrong entry: ${unknownList(name, named)}`)
  }
}

function parseEntry(setting: string, entry: string): ParsedNetwork {
  try {
    return parseNetwork(entry)
  } catch (error) {
    throw new InvalidSettingError(`Setting "${setting}" has a wrong entry: ${errorMessage(error)}`)
  }
}

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
  let warnsOfSocket = true
  let warnsOfUnread = true
  const unreadFrom = memoize(createUnread)

  // A common mistake behind a proxy: every client is counted as the proxy.
  function warnOfForwarding({ plain, loggedPeer }: ClientAddress): void {
    if (plain === null || !isPrivate(plain)) return
    warnsOfForwarding = false
    log.warn(
      `Rate limits count the proxy ${loggedPeer} as the client: requests come from it with a forwarding header that is not trusted. Set Fastify's trustProxy to the addresses of your proxies, as a list such as ['10.0.0.0/8'], not a number`,
    )
  }

  function warnOfTrustProxy(error: unknown): void {
    if (!warnsOfTrustProxy) return
    warnsOfTrustProxy = false
    log.error(
      { err: error },
      `Fastify's trustProxy failed: ${errorMessage(error)}. Limits count the peer of such requests`,
    )
  }

  function warnOfUnknown(): void {
    if (!warnsOfUnknown) return
    warnsOfUnknown = false
    log.warn('Rate limits count requests without any address together, as ip:unknown')
  }

  // Networks never have the peer of a Unix socket, which has no address.
  function warnOfSocket(): void {
    warnsOfSocket = false
    warnsOfUnknown = false
    log.warn(
      "Rate limits count all clients behind a Unix socket together, as ip:unknown: its peer has no address, which no address or network of Fastify's trustProxy can be. Where only your proxy can open the socket, set trustProxy to a function that trusts such a peer: (address) => address === undefined",
    )
  }

  function warnOfUnread({ loggedPeer }: ClientAddress, text: unknown): void {
    if (!warnsOfUnread) return
    warnsOfUnread = false
    // A text that cannot be read may still have a client's address in it.
    const shown = privacy === undefined ? `, such as ${JSON.stringify(String(text).slice(0, SHOWN_LENGTH))}` : ''
    log.warn(
      `Rate limits cannot read the address of clients that the proxy ${loggedPeer} forwards${shown}: they are counted together, as the proxy, without what exempts it. Let it forward addresses such as 203.0.113.7, [2001:db8::1]:443`,
    )
  }

  /** Returns the client of a request whose `request.ip` is no address. */
  function unreadClient(text: unknown, peer: string | undefined): ClientAddress {
    const relay = resolve(peer ?? '')
    // A missing text says nothing of another client.
    if (relay === undefined || text === undefined || text === '') return relay ?? UNKNOWN
    if (text !== null) warnOfUnread(relay, text)
    return unreadFrom(relay)
  }

  return {
    client(request) {
      const { socket } = request
      const peer = socket.remoteAddress
      if (peer === undefined && isGone(socket)) return DISCONNECTED
      let ip: string | null | undefined
      try {
        ip = request.ip
      } catch (error) {
        // A host's function that fails trusts nothing.
        warnOfTrustProxy(error)
        ip = null
      }
      const address = (typeof ip === 'string' ? resolve(ip) : undefined) ?? unreadClient(ip, peer)
      if (address.relay !== null) return address
      if (address.plain === null) {
        if (warnsOfSocket && ip === undefined && request.headers['x-forwarded-for'] !== undefined) warnOfSocket()
        warnOfUnknown()
      } else if (ip === peer && warnsOfForwarding) {
        const { headers } = request
        // A trusted peer that calls through itself forwards its own address: Fastify read the header.
        const isRead = request.ips !== undefined && request.ips.length > 1
        if (!isRead && (headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined)) {
          warnOfForwarding(address)
        }
      }
      return address
    },

    parse: (text) => (privacy && text && parsePseudonym(text)) || (resolve(text ?? '') ?? UNKNOWN),

    peer: (request) => resolve(request.socket.remoteAddress ?? '')?.loggedPeer ?? null,
  }
}
