import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.js'

/**
 * Starts a server on a free port of this machine, which the end of the test closes with its connections.
 *
 * @returns the port, and a function that returns how many connections there have been
 */
export async function startSocketServer(t: TestContext, connected: (socket: Socket) => void) {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    connected(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return { port, connections: () => sockets.size }
}
