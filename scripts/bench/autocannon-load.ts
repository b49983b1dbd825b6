import { createHistogram } from 'node:perf_hooks'
import autocannon from 'autocannon'
import {
  CLIENT_HEADER,
  CLIENTS,
  CONNECTIONS,
  type LoadGenerator,
  type LoadPlan,
  type LoadResult,
  NEW_ENDING,
} from './load.js'

/** The load of the npm package, which needs no installation, and uses more of the machine than most tested servers. */
export const autocannonLoad: LoadGenerator = { name: 'autocannon', run }

async function run({ origin, seconds, paths, signal }: LoadPlan): Promise<LoadResult> {
  signal.throwIfAborted()
  // autocannon's own percentiles are whole milliseconds, too coarse for a server that answers in two.
  const microseconds = createHistogram()
  let connection = 0
  const running = autocannon({
    url: origin,
    connections: CONNECTIONS,
    duration: seconds,
    setupClient: (client) => client.setRequests(requestsOf(connection++, paths)),
  })
  running.on('response', (_client: unknown, _status: number, _bytes: number, ms: number) => {
    microseconds.record(Math.max(1, Math.round(ms * 1_000)))
  })
  const stop = () => running.stop()
  signal.addEventListener('abort', stop)
  const result = await running
  signal.removeEventListener('abort', stop)
  signal.throwIfAborted()
  const answers = result['2xx'] + result.non2xx
  return {
    requestsPerSecond: answers / result.duration,
    p50Ms: microseconds.percentile(50) / 1_000,
    p99Ms: microseconds.percentile(99) / 1_000,
    answers,
    refusals: result.non2xx,
    socketErrors: result.errors,
  }
}

/** Returns the requests of a connection: each of its share of the clients requests all paths in turn. */
function requestsOf(connection: number, paths: readonly string[]) {
  let asked = connection
  const share = CLIENTS / CONNECTIONS
  return Array.from({ length: share * paths.length }, (_, index) => {
    const client = connection * share + (index % share)
    const turn = Math.floor(index / share)
    const path = paths[(client + turn) % paths.length] ?? '/'
    const headers = { [CLIENT_HEADER]: `client-${client}` }
    if (!path.endsWith(NEW_ENDING)) return { path, headers }
    const start = path.slice(0, -NEW_ENDING.length)
    const setupRequest = (request: object) => {
      asked += CONNECTIONS
      return { ...request, path: start + asked }
    }
    return { path, headers, setupRequest }
  })
}
