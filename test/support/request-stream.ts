import { performance } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { createHttpClient } from './http-client.js'

/** The client of a stream, and its requests. */
export interface StreamClient {
  readonly path: string
  /** The address that the trusted proxy forwards; this machine unless given. */
  readonly from?: string
}

export interface Sample {
  readonly client: StreamClient
  readonly status: number
  /** `performance.now()` */
  readonly startedMs: number
  readonly endedMs: number
}

/** Clients that ask again a moment after they are answered. */
export interface RequestStream {
  readonly samples: readonly Sample[]
  /** Resolves when so many more requests were answered. Rejects when one is not. */
  answered(more: number): Promise<void>
  /** Lets the requests under way end. */
  stop(): Promise<void>
}

/** Leaves the processor to the server, and to what happens to it: a few clients would keep both busy. */
const PAUSE_MS = 20

/** Starts the clients, each on a connection of its own. */
export function startRequestStream(port: number, clients: readonly StreamClient[]): RequestStream {
  const http = createHttpClient()
  const samples: Sample[] = []
  const waiting = new Set<() => void>()
  let goesOn = true
  let failure: unknown

  async function ask(client: StreamClient): Promise<void> {
    while (goesOn) {
      const startedMs = performance.now()
      const { status } = await http.request(port, client.path, client)
      samples.push({ client, status, startedMs, endedMs: performance.now() })
      for (const look of waiting) look()
      if (goesOn) await delay(PAUSE_MS)
    }
  }
  function failed(error: unknown): void {
    failure ??= error
    goesOn = false
    for (const look of waiting) look()
  }
  const asking = clients.map((client) => ask(client).catch(failed))

  function answered(more: number): Promise<void> {
    const enough = samples.length + more
    return new Promise((resolve, reject) => {
      function look(): void {
        if (failure === undefined && samples.length < enough) return
        waiting.delete(look)
        if (failure === undefined) resolve()
        else reject(failure)
      }
      waiting.add(look)
      look()
    })
  }
  return {
    samples,
    answered,
    async stop() {
      goesOn = false
      await Promise.all(asking)
      http.close()
      if (failure !== undefined) throw failure
    },
  }
}

/** Returns the time that the slowest hundredth of the requests took at least, in milliseconds. */
export function p99Ms(samples: readonly Sample[]): number {
  const sorted = samples.map(({ startedMs, endedMs }) => endedMs - startedMs).sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length * 0.99)] ?? 0
}
