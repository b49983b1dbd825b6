import { createHistogram } from 'node:perf_hooks'
import autocannon from 'autocannon'

export const CONNECTIONS = 64
/** Different clients in all; each connection speaks for its share of them in turn. */
export const CLIENTS = 1_024
export const CLIENT_HEADER = 'x-client'

/** What one run against one server came to. */
export interface Measurement {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Answers that were not a 2xx, and connections that failed. */
  readonly failures: number
}

/** Loads a server for some seconds. */
export async function load(url: string, seconds: number): Promise<Measurement> {
  // autocannon's own percentiles are whole milliseconds, too coarse for a server that answers in two.
  const microseconds = createHistogram()
  let connection = 0
  const running = autocannon({
    url,
    connections: CONNECTIONS,
    duration: seconds,
    setupClient: (client) => client.setRequests(requestsOf(connection++)),
  })
  running.on('response', (_client: unknown, _status: number, _bytes: number, ms: number) => {
    microseconds.record(Math.max(1, Math.round(ms * 1_000)))
  })
  const result = await running
  return {
    requestsPerSecond: result['2xx'] / result.duration,
    p50Ms: microseconds.percentile(50) / 1_000,
    p99Ms: microseconds.percentile(99) / 1_000,
    failures: result.non2xx + result.errors,
  }
}

function requestsOf(connection: number) {
  const share = CLIENTS / CONNECTIONS
  return Array.from({ length: share }, (_, index) => ({
    path: '/',
    headers: { [CLIENT_HEADER]: `client-${connection * share + index}` },
  }))
}
