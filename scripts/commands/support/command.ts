import type { Readable, Writable } from 'node:stream'

/** What a command reads and writes besides its arguments, so that it runs in a process of its own as in any other. */
export interface CommandContext {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Terminal
  readonly stderr: Terminal
  readonly env: NodeJS.ProcessEnv
  /** Asks a command that works in batches to stop after the one that is under way; only such commands read it. */
  readonly signal: AbortSignal
}

/** A stream that may be a terminal; only a terminal has a width. */
export type Terminal = Writable & { readonly isTTY?: boolean; readonly columns?: number }

/** What a command found or did. The command line prints it. */
export interface CommandResult {
  /** Printed with `--json`. */
  readonly json: object
  /** Printed without it. */
  readonly lines: readonly string[]
  /** What did not work although the rest was done, a line each on stderr: exit status 1. */
  readonly failures?: readonly string[]
  /** What is wrong although the command did its work, a line each on stderr. */
  readonly warnings?: readonly string[]
}

/** The command line is wrong: exit status 2. The message names what is wrong and what to give instead. */
export class UsageError extends Error {}
