#!/usr/bin/env node
import { errorLine } from '../src/ground/errors.js'
import { ratelimit } from './commands/run.js'
import { warnLine } from './commands/support/terminal.js'

/** The time for connections to close after all work is done. */
const LINGERING_MS = 2_000

/** Returns a signal that the first SIGINT or SIGTERM aborts; a second one ends the process as usual. */
function signalOfInterruption(): AbortSignal {
  const controller = new AbortController()
  const names = ['SIGINT', 'SIGTERM'] as const
  function interrupt(name: NodeJS.Signals): void {
    for (const each of names) process.off(each, interrupt)
    controller.abort(name)
  }
  for (const name of names) process.on(name, interrupt)
  return controller.signal
}

// A reader may close the pipe early, as `head` does: that is no failure, and does not stop the work.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // All lines fail where one does, as on a full disk.
  if (error.code === 'EPIPE' || process.exitCode === 1) return
  process.exitCode = 1
  warnLine(`ratelimit: the output could not be printed: ${errorLine(error)}`)
})
// A warning without a reader is lost; the work is still done.
process.stderr.on('error', () => undefined)

const { stdout, stderr, env } = process
const status = await ratelimit(process.argv.slice(2), {
  stdout,
  stderr,
  env,
  get stdin() {
    return process.stdin
  },
  // A command without batches never reads it, and the first signal ends the process as usual.
  get signal() {
    return signalOfInterruption()
  },
})
process.exitCode ??= status

// A server that still sends after its time-out must not keep a scheduled command from ending.
setTimeout(() => {
  if (process.stdout.writableLength === 0) process.exit()
}, LINGERING_MS).unref()
