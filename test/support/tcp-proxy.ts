import { connect, createServer, type Server, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { atEnd } from './at-end.js'

/** Stands between a server and its database, and can be switched off and on. */
export interface TcpProxy {
  readonly port: number
  /** Refuses connections, and breaks those there are. */
  switchOff(): Promise<void>
  switchOn(): Promise<void>
  /** Takes connections and bytes, and lets nothing through. */
  hang(): void
  /** Lets new connections through; those there are hang for good, as when a router forgot them. */
  heal(): void
  /** Passes questions on, and breaks the connection instead of passing on the answer. */
  loseAnswers(areLost: boolean): void
  /** Passes the server's answers on so many milliseconds late, from now on. */
  slowDown(byMs: number): void
}

export async function startTcpProxy(target: { host: string; port: number }): Promise<TcpProxy> {
  const sockets = new Set<Socket>()
  let server: Server | undefined
  const stalled = new WeakSet<Socket>()
  let hangs = false
  let answersAreLost = false
  let delayMs = 0

  function forward(client: Socket): void {
    const upstream = connect(target)
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from)
      from.on('data', (chunk) => {
        if (hangs || stalled.has(from)) return
        if (from === upstream && answersAreLost) to.destroy()
        else if (from === upstream && delayMs > 0) setTimeout(() => to.write(chunk), delayMs).unref()
        else to.write(chunk)
      })
      from.on('error', () => undefined)
      from.on('close', () => {
        sockets.delete(from)
        to.destroy()
      })
    }
  }
  function listen(port: number): Promise<void> {
    hangs = false
    server = createServer(forward)
    return new Promise((resolve, reject) => {
      server?.once('error', reject).listen(port, '127.0.0.1', () => resolve())
    })
  }
  async function close(): Promise<void> {
    const closing = server
    server = undefined
    for (const socket of sockets) socket.destroy()
    if (closing !== undefined) await new Promise((resolve) => closing.close(resolve))
  }

  await listen(0)
  const address = server?.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    port,
    switchOff: close,
    switchOn: () => listen(port),
    hang: () => {
      hangs = true
    },
    loseAnswers: (areLost) => {
      answersAreLost = areLost
    },
    slowDown: (byMs) => {
      delayMs = byMs
    },
    heal: () => {
      for (const socket of sockets) stalled.add(socket)
      hangs = false
    },
  }
}

/** Stands before the server of a URL until the test ends; the URL it answers leads through it. */
export async function startProxyBefore(t: TestContext, serverUrl: string, defaultPort: number) {
  const url = new URL(serverUrl)
  const proxy = await startTcpProxy({ host: url.hostname, port: Number(url.port || defaultPort) })
  atEnd(t, () => proxy.switchOff())
  url.hostname = '127.0.0.1'
  url.port = String(proxy.port)
  return { proxy, url: url.href }
}

/** A port of this machine where nobody listens. */
export async function closedPort(): Promise<number> {
  const proxy = await startTcpProxy({ host: '127.0.0.1', port: 1 })
  await proxy.switchOff()
  return proxy.port
}
