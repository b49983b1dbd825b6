import { isIP } from 'node:net'

/** Whom an override is for, as it was typed: a bare address or network is one too, since nothing else looks like it. */
export function overrideClient(text: string): string {
  const trimmed = text.trim()
  return isIP(trimmed.split('/')[0] ?? '') === 0 ? trimmed : `ip:${trimmed}`
}
