/** The address and the secrets of a webhook. */
import { readableUrl } from '../../../ground/readable-url.js'

/** Returns a URL that can be posted to; undefined for any other text, or a password with a stray percent sign. */
export function webhookUrl(text: string): URL | undefined {
  const url = readableUrl(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined
}

const PREFIX = 'whsec_'
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** The shortest key: shorter ones can be guessed. The scheme recommends 24 bytes or more. */
const MIN_KEY_BYTES = 16

/**
 * Returns the bytes of a secret of the Standard Webhooks scheme: base64 after an optional `whsec_`. Returns undefined
 * for any other text.
 */
export function parseWebhookSecret(secret: string): Buffer | undefined {
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret
  const key = BASE64.test(text) ? Buffer.from(text, 'base64') : Buffer.alloc(0)
  return key.length < MIN_KEY_BYTES ? undefined : key
}
