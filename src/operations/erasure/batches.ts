/** The code that the deletions of one client's traces share. */
import type { ErasedClient } from './erased-client.js'

export interface Batches {
  /** Counts, and deletes nothing. */
  readonly dryRun: boolean
  /** The number of rows that one statement deletes. */
  readonly batchSize: number
  /** Receives the number of rows that were deleted so far. */
  readonly onProgress?: ((deleted: number) => void) | undefined
  /** Stops after the current batch. */
  readonly signal?: AbortSignal | undefined
}

/** Returns the patterns of LIKE for texts that may name the client. */
export function tokenPatterns({ tokens }: ErasedClient): string[] {
  return tokens.map((token) => `%${token.replace(/[\\%_]/g, '\\$&')}%`)
}

/** Returns the condition that a column may name the client: its patterns are the parameters from `first` on. */
export function containsToken(column: string, patterns: readonly string[], first = 1): string {
  return `(${patterns.map((_, index) => `${column} LIKE $${first + index} ESCAPE '\\'`).join(' OR ')})`
}
