/** Posts what channels send as JSON. */
import { createHmac, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { Clock } from '../../../ground/time/clock.js'
import { type RequestFailure, sendRequest, whyFailed, wrongStatus } from '../../outgoing/send-request.js'
import type { AlertTimes, Delivery } from './channel.js'

/** What a channel posts a message with. */
export interface PostOptions {
  readonly clock: Clock
  readonly times: AlertTimes
  readonly blockPrivateNetworks: boolean
  /** The keys that sign it, as `parseWebhookSecret` answers them; none unless given. */
  readonly keys?: readonly Buffer[] | undefined
}

/** The status of an answer, or a failure. */
type Answer = { readonly status: number } | RequestFailure

/** Posts JSON, a second time where that may help. Errors omit the URL, which is a secret. */
export async function postJson(
  url: URL | undefined,
  body: string,
  { clock, times, blockPrivateNetworks, keys = [] }: PostOptions,
): Promise<Delivery> {
  if (url === undefined) {
    return { delivered: false, error: 'its address is not a valid URL: give one of http or https' }
  }
  const id = `msg_${randomUUID()}`
  const attempt = (): Promise<Answer> => {
    const signature = signatureHeaders(keys, id, clock.now(), body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...signature }
    const request = { method: 'POST', headers, body, blockPrivateNetworks, timeoutMs: times.webhookTimeoutMs }
    // The body of the answer is not read.
    return sendRequest(url, request, ({ statusCode = 0 }) => ({ status: statusCode }))
  }
  let answer = await attempt()
  if (isWorthARetry(answer)) {
    await delay(times.webhookRetryMs)
    answer = await attempt()
  }
  const error = complaintAbout(answer, times)
  return error === undefined ? { delivered: true } : { delivered: false, error }
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
