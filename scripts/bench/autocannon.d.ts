// autocannon ships no types; these are the parts the benchmark uses.
declare module 'autocannon' {
  import type { EventEmitter } from 'node:events'

  interface Client {
    setRequests(requests: readonly { readonly path: string; readonly headers: Record<string, string> }[]): void
  }

  interface Options {
    readonly url: string
    readonly connections: number
    /** Seconds. */
    readonly duration: number
    readonly setupClient: (client: Client) => void
  }

  interface Result {
    /** Seconds. */
    readonly duration: number
    readonly '2xx': number
    readonly non2xx: number
    /** Failed connections and time-outs. */
    readonly errors: number
  }

  interface Running extends EventEmitter, PromiseLike<Result> {
    stop(): void
  }

  function autocannon(options: Options): Running
  export = autocannon
}
