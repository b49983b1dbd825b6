import type { CommandResult } from './command.js'

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * Runs work that can be stopped between two batches. The first SIGINT or SIGTERM asks for that, so that what was done is
 * told; a second one ends the process as usual.
 */
export async function interruptible(work: (signal: AbortSignal) => Promise<CommandResult>): Promise<CommandResult> {
  const controller = new AbortController()
  const interrupt = (name: NodeJS.Signals) => {
    for (const each of SIGNALS) process.off(each, interrupt)
    controller.abort(name)
  }
  for (const name of SIGNALS) process.on(name, interrupt)
  try {
    const { signal } = controller
    const result = await work(signal)
    if (!signal.aborted) return result
    return {
      ...result,
      failures: [...(result.failures ?? []), `interrupted by ${signal.reason}: run it again to go on`],
    }
  } finally {
    for (const name of SIGNALS) process.off(name, interrupt)
  }
}
