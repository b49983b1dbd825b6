/**
 * A process of tests: runs one file after the other, as `run-tests.ts` says. Each test and each hook has a limit of time,
 * unless it sets its own. Node's limit would hold for a suite, and so for a whole file, and for no hook.
 */
import { createRequire, syncBuiltinESMExports } from 'node:module'
import type { HookFn, HookOptions, TestContext, TestContextHookFn, TestOptions } from 'node:test'
import { pathToFileURL } from 'node:url'
import { END_OF_FILE, LIMIT_MS, type Message, STUCK_MS } from './messages.js'

/** Those of Node.js: a test that has begun may have put mocks in their place. */
const { setTimeout, clearTimeout } = globalThis
const HOOKS = ['before', 'after', 'beforeEach', 'afterEach'] as const

const runner: typeof import('node:test') = createRequire(import.meta.url)('node:test')
const { test } = runner

type Run = (context: TestContext) => void | Promise<void>

function limitedTest(name: string, ...rest: readonly [TestOptions, Run] | readonly [Run]): Promise<void> {
  const [options, run] = rest.length === 1 ? [{}, rest[0]] : rest
  const { timeout = LIMIT_MS } = options
  return test(name, { ...options, timeout }, (context: TestContext) => {
    limitHooks(context)
    // Here, since the reporter tells nothing while a test keeps the thread.
    tell({ type: 'started', name: context.fullName, limitMs: timeout })
    return run(context)
  })
}

/** Limits what a test has done at its end: closing an app may hang like a test. */
function limitHooks(context: TestContext): void {
  const { after } = context
  context.after = (work?: TestContextHookFn, options?: HookOptions) =>
    after.call(context, work, { timeout: LIMIT_MS, ...options })
}

for (const name of HOOKS) {
  const hook = runner[name]
  runner[name] = (work?: HookFn, options?: HookOptions) => hook(work, { timeout: LIMIT_MS, ...options })
}
Object.assign(limitedTest, { only: limitedTest, skip: test.skip, todo: test.todo })
Object.assign(runner, { test: limitedTest, it: limitedTest })
syncBuiltinESMExports()

let isRunning = false
setInterval(() => tell({ type: 'alive' }), LIMIT_MS / 6).unref()
process.on('message', ({ file }: { readonly file: string }) => void runFile(file))
process.once('disconnect', () => {
  // The runner was killed.
  if (isRunning) process.exit(1)
  setTimeout(end, LIMIT_MS).unref()
})

function tell(message: Message): void {
  // A runner that has just ended needs no message: without the callback the failure to send would be an error.
  if (process.connected) process.send?.(message, () => undefined)
}

async function runFile(file: string): Promise<void> {
  isRunning = true
  const limit = setTimeout(endLoading, STUCK_MS)
  await import(pathToFileURL(file).href).catch((error) => test('loads', () => Promise.reject(error)))
  clearTimeout(limit)
  await test(END_OF_FILE, () => undefined)
  isRunning = false
}

function endLoading(): void {
  process.stderr.write('The file is still loading: an await outside of its tests does not end\n')
  process.exit(1)
}

/** Ends a process that does not end by itself, since a test has left a server, a connection or a timer behind. */
function end(): void {
  const resources = process.getActiveResourcesInfo().join(', ')
  process.stderr.write(`All tests have ended, and something keeps their process from ending: ${resources}\n`)
  process.exit(1)
}
