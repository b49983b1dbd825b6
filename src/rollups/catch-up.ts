import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import type { Database } from '../db/database.js'
import { foldStep, markedHours, recountHour } from './fold.js'

/** How long a report waits for the rollups where it would have to read many events; then it reads those that are left. */
const MAX_WAIT_MS = 1_000

/** Folds whole steps before a report. Where that fails the report reads the events: as one that may only read does. */
export async function foldForReport(database: Database, nowMs: number): Promise<void> {
  const untilMs = performance.now() + MAX_WAIT_MS
  try {
    while ((await foldStep(database, nowMs)) && performance.now() < untilMs) await yieldToEventLoop()
  } catch {
    // What is wrong with the database, the report says.
  }
}

export interface FoldOptions {
  /** Called after every hour with how many were counted so far. */
  readonly onProgress?: ((hours: number) => void) | undefined
  /** Stops it after the step that is under way. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Folds all events that there are, and counts all hours again that have a mark.
 *
 * @returns how many hours were counted
 */
export async function foldAll(
  database: Database,
  nowMs: number,
  { onProgress, signal }: FoldOptions = {},
): Promise<number> {
  let counted = 0
  while (!signal?.aborted && (await foldStep(database, nowMs, 1)));
  for (const hour of await markedHours(database)) {
    if (signal?.aborted) break
    await recountHour(database, hour, nowMs)
    onProgress?.(++counted)
  }
  return counted
}
