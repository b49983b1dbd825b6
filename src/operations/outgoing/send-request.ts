/** Requests that this package sends by itself. They follow no redirect, and no message of theirs has the URL. */

import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders, type RequestOptions } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { urlToHttpOptions } from 'node:url'
import { errorCode } from '../../ground/errors.js'
import { isPrivateHost, lookupPublic, PrivateNetworkError } from './public-address.js'

export interface OutgoingRequest {
  readonly method: string
  readonly headers: OutgoingHttpHeaders
  readonly body?: string
  readonly blockPrivateNetworks: boolean
  /** The longest time until the answer has been read, in milliseconds. */
  readonly timeoutMs: number
  /** Ends the request, which then fails. */
  readonly signal?: AbortSignal
}

export interface RequestFailure {
  readonly failure: 'late' | 'private' | 'network'
  /** The code of the error: its message has the host's name and more. */
  readonly code: string
}

/**
 * Sends a request, and closes its connection when the answer has been read.
 *
 * @param read reads what is needed of the answer; what it throws is thrown
 */
export function sendRequest<Answer>(
  url: URL,
  { method, headers, body, blockPrivateNetworks, timeoutMs, signal }: OutgoingRequest,
  read: (response: IncomingMessage) => Answer | Promise<Answer>,
): Promise<Answer | RequestFailure> {
  if (blockPrivateNetworks && isPrivateHost(url.hostname)) return Promise.resolve({ failure: 'private', code: '' })
  return new Promise((resolve, reject) => {
    const requestOptions: RequestOptions = {
      ...urlToHttpOptions(url),
      method,
      // An agent is not used: the next request is minutes away, and no connection should stay open until then.
      agent: false,
      headers: { 'user-agent': 'fastify-smart-ratelimit', ...headers },
      ...(signal ? { signal } : {}),
      ...(blockPrivateNetworks ? { lookup: lookupPublic } : {}),
    }
    const request = url.protocol === 'https:' ? httpsRequest(requestOptions) : httpRequest(requestOptions)
    const timer = setTimeout(() => settle({ failure: 'late', code: '' }), timeoutMs)
    function settle(answer: Answer | RequestFailure): void {
      clearTimeout(timer)
      resolve(answer)
      request.destroy()
    }
    function fail(error: unknown): void {
      clearTimeout(timer)
      reject(error)
      request.destroy()
    }
    function failed(error: Error): void {
      const failure = error instanceof PrivateNetworkError ? 'private' : 'network'
      settle({ failure, code: errorCode(error) ?? error.name })
    }
    request.on('response', (response) => {
      // An answer that ends too early is a failure of the network, whoever reads it.
      response.on('error', failed)
      void (async () => read(response))().then(settle, fail)
    })
    request.on('error', failed)
    request.end(body)
  })
}

export function whyFailed({ failure, code }: RequestFailure, timeoutMs: number): string {
  if (failure === 'late') return `no answer within ${timeoutMs / 1_000} s`
  return failure === 'private' ? new PrivateNetworkError().message : `network error (${code})`
}

export function wrongStatus(status: number): string {
  return `status ${status}${status >= 300 && status < 400 ? ': redirects are not followed' : ''}`
}
