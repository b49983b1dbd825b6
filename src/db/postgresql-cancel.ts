import { connect } from 'node:net'
import type pg from 'pg'

/** How long asking the server may take, in milliseconds; the connection is kept meanwhile. */
const CANCEL_TIMEOUT_MS = 500
/** The request of the protocol: its length, its code, the process, and the secret that the server gave for it. */
const CANCEL_REQUEST_BYTES = 16
const CANCEL_REQUEST_CODE = 80_877_102

/** Whether the driver gave a statement up, which the server may still be working on. */
export function isGivenUp(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout'
}

/**
 * Asks the server to end the statement that a connection is busy with. Without that a session that waits for a lock
 * goes on waiting although nobody listens, and one is left behind by every attempt, until the server has no room.
 *
 * Resolves when the server has hung up, or did not in time. Never rejects: nothing more can be done.
 */
export function cancelStatement(client: pg.PoolClient): Promise<void> {
  // What the driver knows of its connection, and its types do not.
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
    // The server takes this one request before it asks for TLS or a password.
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
