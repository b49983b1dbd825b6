import { BlockList, isIP } from 'node:net'
import { parseNetwork } from '../overrides/network.js'
import { remember } from '../remember.js'

/** How many addresses keep their answer, for each network of a condition. */
const REMEMBERED = 1_000
/** Longer than any address; clients may write longer texts into headers. */
const MAX_ADDRESS_LENGTH = 64

/**
 * Creates the function that returns whether a text is an address within a network. A text that is none is in no network.
 *
 * @throws Error whose message names the accepted forms
 */
export function createNetworkTest(text: string): (address: string) => boolean {
  const { address, bits, family } = parseNetwork(text)
  const network = new BlockList()
  network.addSubnet(address, bits, family)
  return remember(
    REMEMBERED,
    (asked) => {
      const version = asked.length > MAX_ADDRESS_LENGTH ? 0 : isIP(asked)
      return version !== 0 && network.check(asked, version === 4 ? 'ipv4' : 'ipv6')
    },
    MAX_ADDRESS_LENGTH,
  )
}
