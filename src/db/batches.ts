import { setTimeout as delay } from 'node:timers/promises'

/** The most rows that one statement may delete: a second's work, where connections are given up after five. */
export const MAX_BATCH_SIZE = 100_000
/** A rest is at most so long, in milliseconds. */
const MAX_REST_MS = 100

/**
 * Deletes batch after batch until one was not full. In between it rests for as long as the batch took, so that whoever
 * else writes has half of the database to himself.
 *
 * @param onProgress told how many rows were deleted so far
 * @param signal stops it after the batch that is under way
 * @returns how many rows were deleted
 */
export async function deleteInBatches(
  batchSize: number,
  deleteBatch: () => Promise<number>,
  {
    onProgress,
    signal,
  }: { readonly onProgress?: ((deleted: number) => void) | undefined; readonly signal?: AbortSignal | undefined } = {},
): Promise<number> {
  for (let deleted = 0; ; ) {
    const startedMs = performance.now()
    const batch = await deleteBatch()
    deleted += batch
    onProgress?.(deleted)
    if (batch < batchSize || signal?.aborted) return deleted
    await delay(Math.min(MAX_REST_MS, performance.now() - startedMs))
  }
}
