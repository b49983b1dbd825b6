/**
 * Runs the tests: all of `test/`, or the files given as arguments.
 *
 * Built, as `npm test` does it, it runs the built tests, which start in half the time. Through a loader (`node --import
 * tsx scripts/run-tests.ts`) it runs the sources, which Node 20's `node --test` does not find. The environment (`CI`,
 * `TEST_POSTGRES_URL`, …) and the options of Node are handed on to the process of every file.
 */
import { readdirSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

const ENDING = extname(import.meta.url)
/** Longer than the slowest file takes; one that hangs must not hang everything. */
const TIMEOUT_MS = 180_000

/** The fields that passed and failed tests have in common. */
interface Outcome {
  readonly name: string
  readonly nesting: number
  readonly file?: string | undefined
  readonly todo?: string | boolean | undefined
}

function findTests(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith(`.test${ENDING}`))
    .sort()
    .map((name) => join(folder, name))
}

/** Node reports a file without tests as one test, which passed. */
function isFileWithoutTests({ name, nesting, file }: Outcome): boolean {
  return nesting === 0 && file !== undefined && resolve(name) === resolve(file)
}

/** What a file of the sources was built into. */
function builtFile(name: string): string {
  return name.endsWith('.test.ts') ? join('dist', name.replace(/ts$/, 'js')) : name
}

const isBuilt = ENDING === '.js'
const named = process.argv.slice(2).map((name) => (isBuilt ? builtFile(name) : name))
const files = named.length > 0 ? named : findTests(isBuilt ? join('dist', 'test') : 'test')
let testsRun = 0

function fail(reason: string): void {
  process.exitCode = 1
  process.stderr.write(`${reason}\n`)
}

// A file is a process, and most of them wait for a server or a database now and then: two at least.
const tests = run({ files, concurrency: Math.max(2, availableParallelism()), timeout: TIMEOUT_MS })
tests.on('test:pass', (outcome) => {
  if (isFileWithoutTests(outcome)) fail(`${outcome.name} holds no test`)
  else testsRun++
})
tests.on('test:fail', (outcome) => {
  testsRun++
  if (!outcome.todo) process.exitCode = 1
})
tests.on('end', () => {
  if (testsRun === 0) fail('No test ran')
})
tests.compose(new spec()).pipe(process.stdout)
