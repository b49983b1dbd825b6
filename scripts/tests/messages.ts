/** What a process of tests tells the runner: in this order for every file, and now and then that it is alive. */
export type Message =
  | { readonly type: 'alive' }
  /** `limitMs` is that of a test, whose function begins now. */
  | { readonly type: 'started'; readonly name: string; readonly limitMs?: number }
  | { readonly type: 'ended'; readonly outcome: TestOutcome }
  | { readonly type: 'file ended' }

export interface TestOutcome {
  /** With the names of the suites that it is in. */
  readonly name: string
  readonly isSuite: boolean
  readonly ms: number
  /** Why it did not run. */
  readonly skip?: string
  /** Its failure, as people read it. A suite has none for a test that failed in it. */
  readonly error?: string
}

/** The limit of a test or hook that sets none. */
export const LIMIT_MS = Number(process.env.TEST_LIMIT_MS ?? 60_000)

/** How long a process may say nothing, and a file may load: longer, since a busy machine holds them up. */
export const STUCK_MS = LIMIT_MS + 10_000

/** The name of the test that follows those of a file. */
export const END_OF_FILE = '::end of file'
