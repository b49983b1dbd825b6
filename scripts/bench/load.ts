export const CONNECTIONS = 64
/** Different clients in all, who take turns. */
export const CLIENTS = 1_024
export const CLIENT_HEADER = 'x-client'

/** A path that ends with it is asked for with an increasing number in its place. */
export const NEW_ENDING = '*'

/** What a server is asked. */
export interface LoadPlan {
  /** `http://127.0.0.1:1234`. */
  readonly origin: string
  readonly seconds: number
  /** The paths to ask for, in turn. */
  readonly paths: readonly string[]
  /** Stops the load, which then rejects. */
  readonly signal: AbortSignal
}

/** What came of it. */
export interface LoadResult {
  /** Answers a second, of whatever status. */
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
