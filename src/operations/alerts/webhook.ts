import { createHmac, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { readableUrl } from '../../ground/readable-url.js'
import type { Clock } from '../../ground/time/clock.js'
import { type RequestFailure, sendRequest, whyFailed, wrongStatus } from '../outgoing/send-request.js'
import type { AlertChannel, AlertTimes, Delivery } from './channel.js'
import type { FactsMessage } from './facts-message.js'
import type { AlertMessage } from './message.js'
import { toWebhookBody } from './webhook-body.js'
import type { WebhookFormat } from './webhook-format.js'

interface WebhookOptions {
  readonly url: string
  readonly format: WebhookFormat
  /** The routing key, for PagerDuty only. */
  readonly routingKey: string | undefined
  readonly keys: readonly Buffer[]
  readonly blockPrivateNetworks: boolean
}

/** The status of an answer, or a failure. */
type Answer = { readonly status: number } | RequestFailure

/** Creates the channel that posts to a webhook. Errors omit the URL, which is a secret. */
export function createWebhookChannel(options: WebhookOptions, clock: Clock, times: AlertTimes): AlertChannel {
  async function send(message: AlertMessage | FactsMessage): Promise<Delivery> {
    const url = webhookUrl(options.url)
    if (url === undefined)
      return { delivered: false, error: 'its address is not a valid URL: give one of http or https' }
    const id = `msg_${randomUUID()}`
    const body = toWebhookBody(message, options.format, options.routingKey)
    if (body === undefined) return { delivered: true, isEmpty: true }
    const attempt = () => post(url, body, signatureHeaders(options.keys, id, clock.now(), body))
    let answer = await attempt()
    if (isWorthARetry(answer)) {
      await delay(times.webhookRetryMs)
      answer = await attempt()
    }
    const error = complaintAbout(answer, times)
    return error === undefined ? { delivered: true } : { delivered: false, error }
  }

  async function post(url: URL, body: string, headers: Record<string, string>): Promise<Answer> {
    const { blockPrivateNetworks } = options
    const sent = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers }
    const request = { method: 'POST', headers: sent, body, blockPrivateNetworks, timeoutMs: times.webhookTimeoutMs }
    // The body of the answer is not read.
    return sendRequest(url, request, ({ statusCode = 0 }) => ({ status: statusCode }))
  }

  return { name: 'webhook', target: `${options.format} ${options.url}`, send }
}

/** Returns a URL that can be posted to; undefined for any other text, or a password with a stray percent sign. */
export function webhookUrl(text: string): URL | undefined {
  const url = readableUrl(text)
  return url?.protocol === 'http:' || url?.protocol === 'https:' ? url : undefined
}

/** Excludes timeouts: the receiver may still be working on the message, and the run has to end. */
function isWorthARetry(answer: Answer): boolean {
  return 'status' in answer ? answer.status >= 500 : answer.failure === 'network'
}

function complaintAbout(answer: Answer, { webhookTimeoutMs }: AlertTimes): string | undefined {
  if (!('status' in answer)) return whyFailed(answer, webhookTimeoutMs)
  const { status } = answer
  if (status >= 200 && status < 300) return undefined
  return wrongStatus(status)
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

/**
 * Returns the headers that prove who sent a body, and when (https://www.standardwebhooks.com). Each key makes a
 * signature, so that a receiver can rotate its secret.
 *
 * @param id the same for every attempt to send the same message
 */
function signatureHeaders(keys: readonly Buffer[], id: string, sentMs: number, body: string): Record<string, string> {
  if (keys.length === 0) return {}
  const seconds = Math.floor(sentMs / 1_000)
  const signatures = keys.map(
    (key) => `v1,${createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')}`,
  )
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': signatures.join(' ') }
}
