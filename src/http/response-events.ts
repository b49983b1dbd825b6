/**
 * Reports the start of the response to a request, and the end of the request. Node has no event that tells either in
 * all cases.
 */
import type { EventEmitter } from 'node:events'
import { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Returns whether a request is an upgrade: Node sets the flag where a listener of the server handles upgrades. */
export function isUpgrade({ raw }: FastifyRequest): boolean {
  return 'upgrade' in raw && raw.upgrade === true
}

/** Returns the stream of a request over HTTP/2. */
function streamFor({ raw }: FastifyRequest): Duplex | undefined {
  return 'stream' in raw && raw.stream instanceof Duplex ? raw.stream : undefined
}

/** Returns whether no answer can reach the client any more: its connection is gone, or its stream was reset. */
function isGone(request: FastifyRequest): boolean {
  const stream = streamFor(request)
  return stream === undefined ? request.raw.socket.destroyed : stream.closed || stream.destroyed
}

/**
 * Calls back when the status of a response is decided, before this process reads another request: whatever becomes of
 * the body, no client has seen a status that this process does not know of. The response to a client that has gone never
 * starts.
 *
 * All that sends headers by the response calls `writeHead`: over HTTP/1 and HTTP/2, for streams, and where the host
 * hijacked the reply. What a host writes to the socket or to the stream of HTTP/2 itself is not seen.
 *
 * @param started called once at most; it must not throw
 */
export function atResponseStart(
  request: FastifyRequest,
  { raw }: FastifyReply,
  started: (status: number) => void,
): void {
  const { writeHead } = raw
  let hasStarted = false
  Reflect.set(raw, 'writeHead', (...head: unknown[]): unknown => {
    // Headers that need no body may end a stream at once.
    const wasGone = isGone(request)
    const result: unknown = Reflect.apply(writeHead, raw, head)
    // Invalid headers throw instead, and another answer follows.
    if (raw.headersSent && !wasGone && !hasStarted) {
      hasStarted = true
      started(raw.statusCode)
    }
    return result
  })
}

/** Returns the response whose end is that of its request: an upgrade's connection outlives its response. */
function responseFor(request: FastifyRequest, reply: FastifyReply | undefined): FastifyReply['raw'] | undefined {
  return isUpgrade(request) ? undefined : reply?.raw
}

/** Returns whether a request has ended: its response is finished, or its connection is gone. */
export function hasEnded(request: FastifyRequest, reply: FastifyReply | undefined): boolean {
  if (isGone(request)) return true
  return (streamFor(request) ?? responseFor(request, reply))?.writableFinished === true
}

/**
 * Calls back when a request has ended, at once where it has already. A request that upgraded its connection ends when
 * the connection is closed, as does one whose host took the connection over.
 *
 * Over HTTP/2 Node tells nothing of a stream that a client resets without an error after its answer, while the answer
 * waits for the client's window: only `hasEnded` does.
 *
 * @param reply undefined where it is not known; then only the end of the connection is
 * @param end called once or more often
 */
export function atRequestEnd(request: FastifyRequest, reply: FastifyReply | undefined, end: () => void): void {
  if (hasEnded(request, reply)) {
    end()
    return
  }
  const stream = streamFor(request)
  if (stream !== undefined) {
    stream.once('finish', end).once('aborted', end).once('close', end)
    return
  }
  const leave = joinWaiting(request.raw.socket, end)
  function leaveAndEnd(): void {
    leave()
    end()
  }
  responseFor(request, reply)?.once('finish', leaveAndEnd).once('close', leaveAndEnd)
}

/**
 * The requests that wait for a connection to close. Each connection has one listener, since many pipelined requests may
 * share it, and Node tells only the response that is being sent.
 */
const waiting = new WeakMap<EventEmitter, Set<() => void>>()

/** @returns a function that ends the wait */
function joinWaiting(socket: EventEmitter, end: () => void): () => void {
  let others = waiting.get(socket)
  if (others === undefined) {
    const ends = new Set<() => void>()
    waiting.set(socket, ends)
    socket.once('close', () => {
      for (const each of ends) each()
    })
    others = ends
  }
  const joined = others.add(end)
  return () => {
    joined.delete(end)
  }
}
