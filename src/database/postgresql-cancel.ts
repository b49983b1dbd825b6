import { connect } from 'node:net'
import type pg from 'pg'

/** The time limit of a cancel request, in milliseconds; the connection is kept until then. */
const CANCEL_TIMEOUT_MS = 500
/** The length of the protocol's cancel request: length, code, process, and the secret of that process. */
const CANCEL_REQUEST_BYTES = 16
const CANCEL_REQUEST_CODE = 80_877_102

/** Returns whether the driver gave up a statement, which the server may still be running. */
export function isGivenUp(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout'
}

/**
 * Asks the server to end the running statement of a connection. Otherwise a session that waits for a lock keeps waiting
 * after its client has gone, and every attempt leaves one behind, until the server has no room.
 *
 * Resolves when the server has hung up, or the time limit has passed. Never rejects: nothing more can be done.
 */
export function cancelStatement(client: pg.PoolClient): Promise<void> {
  // Properties of the connection that the driver's types lack.
  const host: unknown = Reflect.get(client, 'host')
  const port: unknown = Reflect.get(client, 'port')
  const processId: unknown = Reflect.get(client, 'processID')
  const secretKey: unknown = Reflect.get(client, 'secretKey')
  if (typeof host !== 'string' || typeof port !== 'number') return Promise.resolve()
  if (typeof processId !== 'number' || typeof secretKey !== 'number') return Promise.resolve()
  const request = Buffer.alloc(CANCEL_REQUEST_BYTES)
  request.writeInt32BE(CANCEL_REQUEST_BYTES, 0)
  request.writeInt32BE(CANCEL_REQUEST_CODE, 4)
  request.writeInt32BE(processId, 8)
  request.writeInt32BE(secretKey, 12)
  return new Promise((resolve) => {
    // The server accepts this request without TLS or a password.
    const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port })
    const timer = setTimeout(() => socket.destroy(), CANCEL_TIMEOUT_MS)
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve()
    })
    socket.resume()
    socket.write(request)
  })
}
