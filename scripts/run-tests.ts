/**
 * Runs the tests: the files and folders given as arguments, or all of `test/` but those in a browser, which take half as
 * long as all others and are run by `npm run test:browser`.
 *
 * Built, as `npm test` does it, it runs the built tests, which load in half the time. Through a loader (`node --import
 * tsx scripts/run-tests.ts`) it runs the sources, which Node 20's `node --test` does not find. The environment (`CI`,
 * `TEST_POSTGRES_URL`, …) and the options of Node are handed on to every process of tests.
 */
import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { pathToFileURL } from 'node:url'

const ENDING = extname(import.meta.url)
/**
 * The processes are more than cores, since most files wait for a server or a database now and then. All files of a
 * process share what it has loaded, which takes longer than most files.
 */
const PROCESSES = availableParallelism() + 2
/** Several times the duration of the slowest process on a busy machine; one that hangs must not block the others. */
const TIMEOUT_MS = 900_000
/** The folder of `test/` whose tests are run by themselves. */
const BROWSER = 'browser'

function findTests(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => name.endsWith(`.test${ENDING}`))
    .sort()
    .map((name) => join(folder, name))
}

/**
 * Returns a module that runs files in turn, once all are loaded. An entry with a file's name precedes its tests. A test
 * that ends the process, which would hide all tests after it, makes the process fail.
 */
function sourceOfGroup(files: readonly string[]): string {
  const modules = files.map((name) => ({ name, url: pathToFileURL(resolve(name)).href }))
  return `import { after, before, describe, test } from 'node:test'
let start
let ended = false
const started = new Promise((resolve) => { start = resolve })
before(() => started)
after(() => { ended = true })
process.once('exit', () => {
  if (ended) return
  process.exitCode = 1
  process.stderr.write('A test ended the process: what follows it did not run\\n')
})
for (const { name, url } of ${JSON.stringify(modules)}) {
  describe(name, () => undefined)
  await import(url).catch((error) => { test('loads', () => { throw error }) })
}
start()
`
}

/**
 * Writes a module for every group of files. Neighbours get into different groups: files that take long have similar
 * names.
 */
function writeGroups(folder: string, files: readonly string[]): string[] {
  const count = Math.min(files.length, PROCESSES)
  return Array.from({ length: count }, (_, group) => {
    const path = join(folder, `group-${group + 1}.mjs`)
    writeFileSync(path, sourceOfGroup(files.filter((_file, index) => index % count === group)))
    return path
  })
}

/** Returns the built file of a source file, or the folder of the built files. */
function built(name: string): string {
  return name.endsWith('.js') || name.endsWith('.mjs') ? name : join('dist', name.replace(/\.ts$/, '.js'))
}

const toRun = ENDING === '.js' ? built : (name: string) => name
const named = process.argv.slice(2).map(toRun)
const files =
  named.length > 0
    ? named.flatMap((name) => (statSync(name, { throwIfNoEntry: false })?.isDirectory() ? findTests(name) : name))
    : findTests(toRun('test')).filter((name) => !name.startsWith(join(toRun('test'), BROWSER, '/')))
const folder = mkdtempSync(join(tmpdir(), 'ratelimit-test-groups-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
let testsRun = 0
let testsOfFile = 0
let file: string | undefined

function fail(reason: string): void {
  process.exitCode = 1
  process.stderr.write(`${reason}\n`)
}

/** Counts a reported entry: the name of a file, or one of its tests. */
function count({ name, nesting }: { readonly name: string; readonly nesting: number }): void {
  if (nesting > 0 || !files.includes(name)) {
    testsOfFile++
    return
  }
  endFile()
  file = name
}

function endFile(): void {
  if (file !== undefined && testsOfFile === 0) fail(`${file} holds no test`)
  testsRun += testsOfFile
  testsOfFile = 0
}

// Tests need no durability, and waiting for the disk would take longer than the commits themselves.
process.env.PGOPTIONS ??= '-c synchronous_commit=off'
const tests = run({ files: writeGroups(folder, files), concurrency: PROCESSES, timeout: TIMEOUT_MS })
tests.on('test:pass', count)
tests.on('test:fail', (outcome) => {
  count(outcome)
  if (!outcome.todo) process.exitCode = 1
})
tests.on('end', () => {
  endFile()
  if (testsRun === 0) fail('No test ran')
})
tests.compose(new spec()).pipe(process.stdout)
