import { isIP } from 'node:net'

/** Returns the client of an override as typed; a bare address or network gets its `ip:`, since it is unambiguous. */
export function overrideClient(text: string): string {
  const trimmed = text.trim()
  return isIP(trimmed.split('/')[0] ?? '') === 0 ? trimmed : `ip:${trimmed}`
}
