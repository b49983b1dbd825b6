import { isIP } from 'node:net'
import { PSEUDONYM } from '../../../src/privacy/address-privacy.js'

/** Returns the client of an override as typed; a bare address, network or pseudonym gets its `ip:`, since it is unambiguous. */
export function overrideClient(text: string): string {
  const trimmed = text.trim()
  const isAddress = isIP(trimmed.split('/')[0] ?? '') !== 0 || PSEUDONYM.test(trimmed)
  return isAddress ? `ip:${trimmed}` : trimmed
}
