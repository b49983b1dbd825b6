import { errorLine } from '../../src/ground/errors.js'
import { warnLine } from '../commands/support/terminal.js'

/** Runs work that a signal stops, and that then cleans up; a second signal ends the process at once. */
export async function untilInterrupted(name: string, work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const interruption = new AbortController()
  const { signal } = interruption
  for (const each of ['SIGINT', 'SIGTERM'] as const) {
    process.once(each, () => {
      process.once(each, () => process.exit(130))
      interruption.abort()
    })
  }
  try {
    await work(signal)
  } catch (error) {
    warnLine(`${name}: ${signal.aborted ? 'interrupted' : errorLine(error)}`)
    process.exitCode = signal.aborted ? 130 : 1
  }
}
