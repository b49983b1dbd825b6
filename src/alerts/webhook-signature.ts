import { createHmac } from 'node:crypto'

const PREFIX = 'whsec_'
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** Shorter keys can be guessed. The scheme recommends 24 bytes or more. */
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

/**
 * Returns the headers that prove who sent a body, and when (https://www.standardwebhooks.com). Each key makes a
 * signature, so that a receiver can rotate its secret.
 *
 * @param id the same for every attempt to send the same message
 */
export function signatureHeaders(
  keys: readonly Buffer[],
  id: string,
  sentMs: number,
  body: string,
): Record<string, string> {
  if (keys.length === 0) return {}
  const seconds = Math.floor(sentMs / 1_000)
  const signatures = keys.map(
    (key) => `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`,
  )
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signatures.join(' ') }
}
