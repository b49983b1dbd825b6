/**
 * Runs the tests: the files and folders given as arguments; without arguments those of `test/` but what takes long, which
 * are the tests that say so (`test/support/long.ts`) and those in a browser; with `--long` these, with all other tests of
 * their files.
 *
 * Built, as `npm test` does it, it runs the built tests, which load in half the time. Through a loader (`node --import
 * tsx scripts/run-tests.ts`) it runs the sources, which Node 20's `node --test` does not find. The environment (`CI`,
 * `TEST_POSTGRES_URL`, …) and the options of Node are handed on to every process of tests.
 *
 * A few processes take one file after the other. Files share what their process has loaded, since loading takes longer
 * than most files. Neither a file nor the run has a limit of time: a test has one (`tests/worker.ts`), and a test that
 * runs for half a minute is named. A process whose test keeps its thread for longer than its limit, which no timer in it
 * could end, is killed.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openSqliteFile } from '../src/database/sqlite-driver.js'
import { errorMessage } from '../src/ground/errors.js'
import { LIMIT_MS, type Message, STUCK_MS, type TestOutcome } from './tests/messages.js'

const ENDING = extname(import.meta.url)
/** One more than cores, since tests wait for a server or a database now and then. */
const PROCESSES = availableParallelism() + 1
/** The time after which a test is named that has not ended. */
const NAMED_AFTER_MS = Number(process.env.TEST_NAMED_AFTER_MS ?? 30_000)
/** How long a process has to end when the run is interrupted. */
const ENDING_MS = 1_000
/** The number of slow tests that a run names at its end. */
const SLOWEST = 20

/** What a file imports of which `npm test` leaves tests out. */
const LEAVES_OUT = /\b(?:long|longLeftOut|forAnyDatabase|onRedisCluster|clusterMissing)\b[^'"]* from /

const WORKER = fileURLToPath(new URL(`tests/worker${ENDING}`, import.meta.url))
const REPORTER = new URL(`tests/reporter${ENDING}`, import.meta.url).href

/** What a process of tests is doing. */
interface Process {
  readonly child: ChildProcess
  file: string | undefined
  tests: number
  failures: number
  startedMs: number
  /** What began or ended last, and when. */
  last: string
  lastMs: number
  /** The limit of the test, and when its process told anything. */
  limitMs: number
  aliveMs: number
}

function findTests(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith(`.test${ENDING}`))
    .sort()
    .map((name) => join(folder, name))
}

/** Returns the built file of a source file, or the folder of the built files. */
function built(name: string): string {
  return name.endsWith('.js') || name.endsWith('.mjs') ? name : join('dist', name.replace(/\.ts$/, '.js'))
}

const toRun = ENDING === '.js' ? built : (name: string) => name
const TESTS = toRun('test')

function isOfBrowser(file: string): boolean {
  return file.startsWith(join(TESTS, 'browser', '/'))
}

function filesToRun(args: readonly string[]): string[] {
  if (args.length === 0) return findTests(TESTS).filter((file) => !isOfBrowser(file))
  if (args.includes('--long')) {
    return findTests(TESTS).filter((file) => isOfBrowser(file) || LEAVES_OUT.test(readFileSync(file, 'utf8')))
  }
  return args
    .map(toRun)
    .flatMap((name) => (statSync(name, { throwIfNoEntry: false })?.isDirectory() ? findTests(name) : name))
}

const args = process.argv.slice(2)
const queue = filesToRun(args)
const processes = new Set<Process>()
const outcomes: TestOutcome[] = []
const failures: string[] = []
const startMs = performance.now()

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}

function fail(reason: string): void {
  failures.push(reason)
  print(`✖ ${reason}`)
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

function startProcess(): void {
  const execArgv = [...process.execArgv, '--test-reporter', REPORTER, '--test-reporter-destination', 'stdout']
  const child = fork(WORKER, { execArgv })
  const worker: Process = { child, file: undefined, ...newFile() }
  processes.add(worker)
  child.on('message', (message: Message) => onMessage(worker, message))
  child.once('exit', (status, signal) => onExit(worker, status, signal))
  startFile(worker)
}

function startFile(worker: Process): void {
  const file = queue.shift()
  worker.file = file
  if (file === undefined) {
    worker.child.disconnect()
    return
  }
  Object.assign(worker, newFile())
  worker.child.send({ file: resolve(file) })
}

function newFile(): Omit<Process, 'child' | 'file'> {
  const nowMs = performance.now()
  const last = 'it began to load'
  return { tests: 0, failures: 0, startedMs: nowMs, last, lastMs: nowMs, limitMs: LIMIT_MS, aliveMs: nowMs }
}

function onMessage(worker: Process, message: Message): void {
  worker.aliveMs = performance.now()
  if (message.type === 'alive') return
  if (message.type === 'started') {
    worker.limitMs = message.limitMs ?? worker.limitMs
    setLast(worker, `"${message.name}" began`)
  } else if (message.type === 'ended') {
    onEnded(worker, message.outcome)
  } else {
    endFile(worker)
    startFile(worker)
  }
}

function setLast(worker: Process, last: string): void {
  worker.last = last
  worker.lastMs = performance.now()
}

function onEnded(worker: Process, outcome: TestOutcome): void {
  const { name, error, isSuite, skip } = outcome
  setLast(worker, `"${name}" ended`)
  if (error !== undefined) {
    worker.failures++
    fail(`${worker.file}: ${name}\n${error}`)
  }
  // A suite that is left out stands for its tests.
  if (isSuite && skip === undefined) return
  worker.tests++
  outcomes.push({ ...outcome, name: `${worker.file}: ${name}` })
}

function endFile({ file, tests, failures: failed, startedMs }: Process): void {
  if (tests === 0) fail(`${file} holds no test`)
  else print(`${failed === 0 ? '✔' : '✖'} ${file} (${tests} tests, ${seconds(performance.now() - startedMs)})`)
}

function onExit(worker: Process, status: number | null, signal: NodeJS.Signals | null): void {
  processes.delete(worker)
  if (worker.file !== undefined) {
    fail(
      `${worker.file}: Its process ended (${signal ?? `status ${status}`}) after ${worker.last}: what follows did not run`,
    )
    if (queue.length > 0) startProcess()
  } else if (status !== 0 && failures.length === 0) {
    fail(`A process of tests ended with ${signal ?? `status ${status}`} after its tests, and printed why`)
  }
  if (processes.size === 0) end()
}

/** Leaves out all tests where SQLite has no driver: most would fail, each for that reason. */
function needDriver(): void {
  try {
    openSqliteFile(':memory:').close()
  } catch (error) {
    fail(errorMessage(error))
    queue.length = 0
  }
}

function nameSlowTests(): void {
  const nowMs = performance.now()
  for (const { child, file, last, lastMs, limitMs, aliveMs } of processes) {
    if (file === undefined || nowMs - lastMs < NAMED_AFTER_MS) continue
    print(`… ${file}: nothing for ${seconds(nowMs - lastMs)} since ${last}`)
    if (nowMs - aliveMs > limitMs - LIMIT_MS + STUCK_MS) child.kill('SIGKILL')
  }
}

/** Ends all processes, which are told of as those that end by themselves; a second signal ends this one at once. */
function stop(): void {
  queue.length = 0
  for (const { child } of processes) child.kill('SIGTERM')
  setTimeout(() => {
    for (const { child } of processes) child.kill('SIGKILL')
  }, ENDING_MS).unref()
}

function end(): void {
  clearInterval(watch)
  if (outcomes.length === 0) fail('No test ran')
  const skipped = outcomes.filter(({ skip }) => skip !== undefined)
  for (const reason of new Set(skipped.map(({ skip }) => skip))) {
    print(`﹣ ${skipped.filter(({ skip }) => skip === reason).length} skipped # ${reason}`)
  }
  print('\nThe slowest tests')
  for (const { name, ms } of outcomes.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST)) print(`${seconds(ms)} ${name}`)
  if (failures.length > 0) print(`\nFailures\n\n${failures.join('\n\n')}`)
  const failed = outcomes.filter(({ error }) => error !== undefined).length
  print(`
ℹ tests ${outcomes.length}
ℹ pass ${outcomes.length - failed - skipped.length}
ℹ fail ${failures.length}
ℹ skipped ${skipped.length}
ℹ duration_ms ${Math.round(performance.now() - startMs)}`)
  process.exitCode = failures.length > 0 ? 1 : 0
}

// Tests need no durability, and waiting for the disk would take longer than the commits themselves.
process.env.TEST_LONG = args.length === 0 ? '0' : '1'
process.env.PGOPTIONS ??= '-c synchronous_commit=off'
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, stop)
if (args.length === 0 || args.includes('--long')) needDriver()
const watch = setInterval(nameSlowTests, NAMED_AFTER_MS)
while (processes.size < PROCESSES && queue.length > 0) startProcess()
if (processes.size === 0) end()
