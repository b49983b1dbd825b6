export const CONNECTIONS = 64
/** The number of different clients, which take turns. */
export const CLIENTS = 1_024
export const CLIENT_HEADER = 'x-client'

/** The ending of a path that is requested with an increasing number in its place. */
export const NEW_ENDING = '*'

/** The requests to a server. */
export interface LoadPlan {
  /** An origin such as `http://127.0.0.1:1234`. */
  readonly origin: string
  readonly seconds: number
  /** The paths to request, in turn. */
  readonly paths: readonly string[]
  /** Stops the load, which then rejects. */
  readonly signal: AbortSignal
}

/** The result of a load. */
export interface LoadResult {
  /** Answers per second, of any status. */
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly answers: number
  /** Answers with a status of 400 or more. */
  readonly refusals: number
  /** Connections that failed, and requests without an answer in time. */
  readonly socketErrors: number
}

export interface LoadGenerator {
  readonly name: string
  run(plan: LoadPlan): Promise<LoadResult>
}
