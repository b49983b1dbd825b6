import { Agent, request as httpRequest, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http'
import {
  connect as connectSession,
  type Http2Session,
  type IncomingHttpHeaders as IncomingHttp2Headers,
  type OutgoingHttpHeaders as OutgoingHttp2Headers,
  type Settings,
} from 'node:http2'
import { connect } from 'node:net'
import type { TestContext } from 'node:test'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import { atEnd } from './at-end.js'

export interface RequestOptions {
  readonly method?: string
  readonly headers?: OutgoingHttpHeaders
  /** The client's address, as the trusted proxy forwards it. */
  readonly from?: string
  readonly body?: string
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/** A server that does not answer is a failure, not a reason to wait. */
const TIMEOUT_MS = 50_000

/** Sends paths as they are: `fetch` would tidy up `//`, `/../` and the like. */
export function createHttpClient() {
  const agent = new Agent({ keepAlive: true })

  function request(
    port: number,
    path: string,
    { method = 'GET', headers = {}, from, body }: RequestOptions,
  ): Promise<Answer> {
    const forwarded = from === undefined ? {} : { 'x-forwarded-for': from }
    return new Promise((resolve, reject) => {
      const sent = httpRequest(
        { agent, host: '127.0.0.1', port, path, method, headers: { ...forwarded, ...headers } },
        (response) => {
          let text = ''
          response.setEncoding('utf8')
          response.on('data', (chunk: string) => {
            text += chunk
          })
          response.on('error', reject)
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
        },
      )
      sent.setTimeout(TIMEOUT_MS, () => sent.destroy(new Error(`No answer to ${method} ${path.slice(0, 80)}`)))
      sent.on('error', reject)
      sent.end(body)
    })
  }

  return { request, close: () => agent.destroy() }
}

/**
 * Sends bytes that no client library would, and answers all that comes back until the server hangs up.
 *
 * @param head the request line and headers; `Connection: close` and the empty line are added
 */
export function sendRaw(port: number, head: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    socket.setEncoding('latin1')
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`No answer to ${JSON.stringify(head.slice(0, 80))}`)))
    socket.on('data', (chunk) => {
      received += String(chunk)
    })
    socket.on('error', reject)
    socket.on('close', () => resolve(received))
    socket.write(`${head}\r\nConnection: close\r\n\r\n`, 'latin1')
  })
}

/** Makes a server one for HTTP/2, beside the options that Fastify's type for HTTP/1 has. */
export const HTTP2: FastifyServerOptions & { readonly http2: true } = { http2: true }

/** The settings of a client that gives no flow-control window: it reads headers, and bodies wait. */
export const NO_WINDOW: Settings = { initialWindowSize: 0 }

/** One HTTP/2 connection. Pseudo-headers are sent as they are given: `GET` and the scheme `http` unless given. */
export function connectHttp2(port: number, settings: Settings = {}) {
  const session = connectSession(`http://127.0.0.1:${port}`, { settings })
  session.setTimeout(TIMEOUT_MS, () => session.destroy(new Error('No answer over HTTP/2')))

  /** Answers the response's headers, none where the stream ended before there were any. */
  function request(headers: OutgoingHttp2Headers): Promise<IncomingHttp2Headers> {
    return new Promise((resolve) => {
      let received: IncomingHttp2Headers = {}
      const stream = session.request({ ':method': 'GET', ':scheme': 'http', ':authority': 'a', ...headers })
      stream.on('response', (response) => {
        received = response
      })
      // A malformed request ends its stream, and no other.
      stream.on('error', () => undefined)
      stream.on('close', () => resolve(received))
      stream.resume()
      stream.end()
    })
  }

  return {
    session,
    request,
    /** The status, undefined where there is none. */
    send: async (headers: OutgoingHttp2Headers) => (await request(headers))[':status'],
    close: () => session.destroy(),
  }
}

/**
 * Ends the HTTP/2 connections of an app before it is closed: Node never ends one by itself on which a client has reset an
 * answer without an error, while that waited for the client's window.
 */
export function destroySessions(t: TestContext, { server }: Pick<FastifyInstance, 'server'>): void {
  server.on('session', (session: Http2Session) => atEnd(t, () => session.destroy()))
}

/** The status code of an answer as `sendRaw` gives it. */
export function rawStatus(received: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1])
}

/** The value of one of its headers; undefined when it is missing. */
export function rawHeader(received: string, name: string): string | undefined {
  return new RegExp(`^${name}: *(.*)$`, 'im').exec(received)?.[1]?.trim()
}
