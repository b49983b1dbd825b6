#!/usr/bin/env node
import { lineOf } from '../src/errors.js'
import { ratelimit } from './commands/run.js'
import { warnLine } from './commands/support/terminal.js'

/** Connections that still close when all is done have so long for it. */
const LINGERING_MS = 2_000

/** The first SIGINT or SIGTERM asks the command to stop; a second one ends the process as usual. */
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

// A reader that has read enough closes the pipe, as `head` does: not a failure, and no reason to leave work undone.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  // Every line fails where one does, as on a full disk.
  if (error.code === 'EPIPE' || process.exitCode === 1) return
  process.exitCode = 1
  warnLine(`ratelimit: what was found or done could not be printed: ${lineOf(error)}`)
})
// A warning that nothing reads is lost; the work is done all the same.
process.stderr.on('error', () => undefined)

const { stdout, stderr, env } = process
const status = await ratelimit(process.argv.slice(2), {
  stdout,
  stderr,
  env,
  get stdin() {
    return process.stdin
  },
  // A command that cannot stop between two batches never reads it, and the first signal ends that as usual.
  get signal() {
    return signalOfInterruption()
  },
})
process.exitCode ??= status

// A server that was given up and goes on sending must not keep a scheduled command from ending.
setTimeout(() => {
  if (process.stdout.writableLength === 0) process.exit()
}, LINGERING_MS).unref()
