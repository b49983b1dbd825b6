import { setTimeout as delay } from 'node:timers/promises'

/** The most rows that one statement may delete: a second of work, where connections are given up after five. */
export const MAX_BATCH_SIZE = 100_000
/** The longest pause between two batches, in milliseconds. */
const MAX_REST_MS = 100

/**
 * Pauses for as long as some work took, a tenth of a second at most: half of the database's time is left to others.
 *
 * @param startedMs when the work began, by `performance.now()`
 * @param signal ends the pause: it rejects then
 */
export function restAfter(startedMs: number, signal?: AbortSignal): Promise<void> {
  return delay(Math.min(MAX_REST_MS, performance.now() - startedMs), undefined, { signal })
}

/**
 * Deletes batch after batch until one is not full, with a pause after each.
 *
 * @param onProgress receives the number of rows deleted so far
 * @param signal stops it after the current batch
 * @returns the number of deleted rows
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
    await restAfter(startedMs)
  }
}
