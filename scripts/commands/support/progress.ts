import { setTimeout as delay } from 'node:timers/promises'
import type { CommandContext, Terminal } from './command.js'

/** The interval of updates: a line that changes more often cannot be read. */
const INTERVAL_MS = 200
const ERASE_LINE = '\r\u001b[2K'

/**
 * Creates a display of the progress of long work, one line in a terminal that disappears at the end. A pipe and a log
 * get no such line.
 */
export function createProgress(
  terminal: Pick<Terminal, 'isTTY' | 'write'> = process.stderr,
  now = () => performance.now(),
) {
  let shownAtMs = now()
  let isShown = false
  return {
    show(line: string): void {
      if (!terminal.isTTY || now() - shownAtMs < INTERVAL_MS) return
      shownAtMs = now()
      isShown = true
      terminal.write(ERASE_LINE + line)
    },
    end(): void {
      if (isShown) terminal.write(ERASE_LINE)
    },
  }
}

interface BatchOptions {
  readonly onProgress: (done: number) => void
  readonly signal: AbortSignal
}

/** Runs work in batches: shows its progress, measures its time, and returns whether it was interrupted. */
export async function runBatches<Result>(
  { stderr, signal }: CommandContext,
  line: (done: number) => string,
  work: (options: BatchOptions) => Promise<Result>,
): Promise<{ result: Result; seconds: number; failures: string[] }> {
  const startedMs = performance.now()
  const progress = createProgress(stderr)
  const onProgress = (done: number) => progress.show(line(done))
  const result = await work({ onProgress, signal }).finally(progress.end)
  const seconds = Math.round(performance.now() - startedMs) / 1_000
  return {
    result,
    seconds,
    failures: signal.aborted ? [`interrupted by ${signal.reason}: run it again to go on`] : [],
  }
}

/** Runs a step at once and then again after each pause, until the signal. The step under way ends first. */
export async function follow(signal: AbortSignal, pauseMs: number, step: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    await step()
    // An aborted pause rejects.
    await delay(pauseMs, undefined, { signal }).catch(() => undefined)
  }
}
