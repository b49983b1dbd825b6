/** More often nobody could read it, in milliseconds. */
const INTERVAL_MS = 200
const ERASE_LINE = '\r\u001b[2K'

/** The part of `process.stderr` that progress is written to. */
type Terminal = Pick<NodeJS.WriteStream, 'isTTY' | 'write'>

/**
 * Shows how far long work has come, in one line of a terminal that goes away at the end. In a pipe, and in a log, there
 * is none.
 */
export function createProgress(terminal: Terminal = process.stderr, now = () => performance.now()) {
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
