import type { CommandContext, Terminal } from './command.js'

/** A line that changes more often cannot be read. */
const INTERVAL_MS = 200
const ERASE_LINE = '\r\u001b[2K'

/**
 * Shows how far long work has come, in one line of a terminal that goes away at the end. In a pipe, and in a log, there
 * is none.
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

/** Runs work that goes batch by batch: shows how far it is, times it, and says whether it was interrupted. */
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
