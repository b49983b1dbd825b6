import { userInfo } from 'node:os'
import type { Readable, Writable } from 'node:stream'

/** The streams and environment of a command, so that it runs in any process. */
export interface CommandContext {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Terminal
  readonly stderr: Terminal
  readonly env: NodeJS.ProcessEnv
  /** Stops a command that works in batches, or follows the log, after the current step; only such commands read it. */
  readonly signal: AbortSignal
}

/** A stream that may be a terminal; only a terminal has a width. */
export type Terminal = Writable & { readonly isTTY?: boolean; readonly columns?: number }

/** The result of a command, which the command line prints. */
export interface CommandResult {
  /** The output with `--json`; none where the command has printed it already. */
  readonly json?: object
  /** The output without it. */
  readonly lines: readonly string[]
  /** The parts that failed although the rest was done, a line each on stderr: exit status 1. */
  readonly failures?: readonly string[]
  /** The warnings of a command that did its work, a line each on stderr. */
  readonly warnings?: readonly string[]
}

/** An invalid command line: exit status 2. The message names the mistake and the remedy. */
export class UsageError extends Error {}

/** Returns the actor of a command's changes, for the history: the command, and the system user that runs it. */
export function commandActor(command: string): string {
  try {
    return `ratelimit ${command} (${userInfo().username})`
  } catch {
    // The user may have no name in a container.
    return `ratelimit ${command}`
  }
}
