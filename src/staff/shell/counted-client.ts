import { countedBits } from '../../clients/address-privacy.js'
import { parseClient } from '../../clients/client.js'
import { clientText, parseTypedClient } from '../../clients/override-client.js'
import type { Settings } from '../../plugin/settings/resolve.js'

/** How to write a client whose counters are reset. */
export const COUNTED_CLIENTS =
  'give ip:203.0.113.7 or user:<id>, or another client as the log has it, such as user.org:acme'

/**
 * Returns the client that a text spells: an address or a user, with or without `ip:`, or any other client as the log has
 * it. Undefined for another text, and for a network of several clients, which have counters of their own.
 */
export function readCountedClient(
  text: string,
  { privacy, ipv6Subnet }: Pick<Settings, 'privacy' | 'ipv6Subnet'>,
): string | undefined {
  // A form sends another end of a line than it was given.
  if (/[\r\n]/.test(text)) return undefined
  const client = addressOrUser(text.trim(), ipv6Subnet) ?? otherClient(text.trim())
  return client === undefined || privacy?.isShortened(client) ? undefined : client
}

function addressOrUser(text: string, ipv6Subnet: number): string | undefined {
  try {
    const client = parseTypedClient(text)
    const isSeveral = client.kind === 'ip' && client.bits < countedBits(client.address, ipv6Subnet)
    return isSeveral ? undefined : clientText(client)
  } catch {
    return undefined
  }
}

/** Returns a client that no override can be for; undefined where a value is missing. */
function otherClient(text: string): string | undefined {
  const parts = parseClient(text)?.parts
  if (parts === undefined || parts.some(({ value }) => value?.trim() === '')) return undefined
  const isOther = parts.length !== 1 || parts.some(({ name }) => name !== 'ip' && name !== 'user')
  return isOther ? text : undefined
}
