import type { AddressPrivacy } from '../../clients/address-privacy.js'
import { clientText, parseTypedClient } from '../../clients/override-client.js'

/**
 * Returns the client that a text spells: an address, a network or a user, with or without `ip:`. Undefined for another
 * text, and for a network of shortened addresses, whose clients have counters of their own.
 */
export function readCountedClient(text: string, privacy: AddressPrivacy | undefined): string | undefined {
  // A form sends another end of a line than it was given.
  if (/[\r\n]/.test(text)) return undefined
  try {
    const client = clientText(parseTypedClient(text.trim()))
    return privacy?.isShortened(client) ? undefined : client
  } catch {
    return undefined
  }
}
