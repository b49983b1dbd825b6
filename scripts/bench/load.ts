import { once } from 'node:events'
import { connect } from 'node:net'
import { createHistogram, performance } from 'node:perf_hooks'

/** The number of connections to a server. */
export const CONNECTIONS = 64
/** The number of different clients, which take turns. */
export const CLIENTS = 1_024
export const CLIENT_HEADER = 'x-client'
/** The ending of a path that is requested with an increasing number in its place. */
export const NEW_ENDING = '*'
const TIMEOUT_MS = 10_000

function getRequest(hostname: string, target: string, client: number): string {
  return `GET ${target} HTTP/1.1\r\nhost: ${hostname}\r\n${CLIENT_HEADER}: client-${client}\r\n\r\n`
}

/**
 * Requests from all servers over all connections at once, each time as the next client, each of which requests all paths
 * in turn. It reads no more of an answer than its end, and so leaves the machine to the server; a complete HTTP client in
 * JavaScript uses more of it than most of the servers do, which makes all of them look alike.
 *
 * @param requestAt the text of a request
 * @throws Error when a connection fails
 */
export async function runLoad(
  origins: readonly string[],
  paths: readonly string[],
  seconds: number,
  signal: AbortSignal,
  requestAt = getRequest,
) {
  const microseconds = createHistogram()
  const startMs = performance.now()
  const endMs = startMs + seconds * 1_000
  /** Answers with another status than 200. */
  let refusals = 0
  let sent = 0

  function nextRequest(hostname: string): string {
    const client = sent % CLIENTS
    const path = paths[(client + Math.floor(sent / CLIENTS)) % paths.length] ?? '/'
    const target = path.endsWith(NEW_ENDING) ? path.slice(0, -NEW_ENDING.length) + sent : path
    sent++
    return requestAt(hostname, target, client)
  }

  async function runConnection(origin: string): Promise<void> {
    const { hostname, port } = new URL(origin)
    const socket = connect(Number(port), hostname).setNoDelay().setEncoding('latin1')
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error('The server does not answer')))
    let sentMs = 0
    let answer = ''
    function send(): void {
      sentMs = performance.now()
      answer = ''
      if (sentMs < endMs && !signal.aborted) socket.write(nextRequest(hostname))
      else socket.destroy()
    }
    socket.on('connect', send).on('data', (chunk) => {
      answer += chunk
      const bodyStart = answer.indexOf('\r\n\r\n') + 4
      const bodyLength = Number(/^content-length: (\d+)/im.exec(answer)?.[1])
      if (bodyStart < 4 || answer.length < bodyStart + bodyLength) return
      microseconds.record(Math.ceil((performance.now() - sentMs) * 1_000))
      if (!answer.startsWith('HTTP/1.1 200 ')) refusals++
      send()
    })
    await once(socket, 'close')
    signal.throwIfAborted()
    if (performance.now() < endMs) throw new Error('The server has closed a connection')
  }

  await Promise.all(Array.from({ length: CONNECTIONS }, () => origins.map(runConnection)).flat())
  return { answers: microseconds.count, refusals, microseconds, seconds: (performance.now() - startMs) / 1_000 }
}
