import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { parseNetwork } from '../overrides/network.js'
import { remember } from '../remember.js'

/** How many addresses are kept parsed, for all conditions together. */
const REMEMBERED = 1_000
/** Longer than any address; clients may write longer texts into headers. */
const MAX_ADDRESS_LENGTH = 64

const parseAddress = remember(
  REMEMBERED,
  (text) => (text.length > MAX_ADDRESS_LENGTH || isIP(text) === 0 ? undefined : ipaddr.process(text)),
  MAX_ADDRESS_LENGTH,
)

/**
 * Creates the function that returns whether a text is an address within a network. A text that is none is in no network.
 *
 * @throws Error whose message names the accepted forms
 */
export function createNetworkTest(text: string): (address: string) => boolean {
  const { address, bits, family } = parseNetwork(text)
  const network = ipaddr.parse(address)
  return function isInside(asked) {
    const parsed = parseAddress(asked)
    return parsed !== undefined && parsed.kind() === family && parsed.match(network, bits)
  }
}
