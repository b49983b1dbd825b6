/** The end of a request: its response is finished, or its connection is gone. */
import type { EventEmitter } from 'node:events'
import { Duplex } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'

/**
 * The requests that wait for a connection to close. Each connection has one listener, since many pipelined requests may
 * share it, and Node tells only the response that is being sent.
 */
const waiting = new WeakMap<EventEmitter, Set<() => void>>()

/** Returns whether a request is an upgrade: Node sets the flag where a listener of the server handles upgrades. */
export function isUpgrade({ raw }: FastifyRequest): boolean {
  return 'upgrade' in raw && raw.upgrade === true
}

/**
 * Calls back when a request has ended, at once where it has already. A request that upgraded its connection ends when
 * the connection is closed, as does one whose host took the connection over.
 *
 * @param reply undefined where it is not known; then only the end of the connection is
 * @param end called once or more often
 */
export function atRequestEnd(request: FastifyRequest, reply: FastifyReply | undefined, end: () => void): void {
  const { raw } = request
  // HTTP/2 has a stream for each request.
  const stream = 'stream' in raw ? raw.stream : undefined
  if (stream instanceof Duplex) {
    if (stream.destroyed || stream.writableFinished) end()
    else stream.once('finish', end).once('close', end)
    return
  }
  const { socket } = raw
  const response = isUpgrade(request) ? undefined : reply?.raw
  if (socket.destroyed || response?.writableFinished) {
    end()
    return
  }
  const leave = joinWaiting(socket, end)
  response?.once('finish', end).once('finish', leave).once('close', end).once('close', leave)
}

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
