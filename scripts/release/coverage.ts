/**
 * Runs the built tests of the rooms on the way of a request, prints how many of their lines these run, and fails where
 * that is less than a floor. The tests of stores and of whole apps, which take minutes, are left out.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

/** The least share of lines, in percent, by room. Raise one when a test raises the share; the rest is run by test/acceptance/. */
const FLOORS: Readonly<Record<string, number>> = { http: 61, limiter: 62 }

interface Range {
  readonly startOffset: number
  readonly endOffset: number
  readonly count: number
}

interface Script {
  readonly url: string
  readonly functions: readonly { readonly ranges: readonly Range[] }[]
}

const folder = mkdtempSync(join(tmpdir(), 'ratelimit-coverage-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const tests = join(PACKAGE_ROOT, 'dist', 'test')
const files = [
  ...readdirSync(join(tests, 'http'), { recursive: true, encoding: 'utf8' }).map((name) => join(tests, 'http', name)),
  ...readdirSync(join(tests, 'limiter')).map((name) => join(tests, 'limiter', name)),
].filter((name) => name.endsWith('.test.js'))
// A process for each file: what one counts does not depend on what ran before it.
const { status, stdout } = spawnSync(process.execPath, ['--test', ...files], {
  cwd: PACKAGE_ROOT,
  env: { ...process.env, NODE_V8_COVERAGE: folder },
  encoding: 'utf8',
  maxBuffer: 2 ** 28,
})
if (status !== 0) {
  console.error(stdout)
  throw new Error('The tests fail while coverage is measured')
}
const BUILT = join(PACKAGE_ROOT, 'dist', 'src')

/** The lines that some process ran, by file. A file that no process loaded has none. */
const ranLines = new Map<string, Set<number>>()

for (const name of readdirSync(folder)) {
  const { result }: { result: readonly Script[] } = JSON.parse(readFileSync(join(folder, name), 'utf8'))
  for (const { url, functions } of result) {
    if (!url.startsWith('file:')) continue
    const path = fileURLToPath(url)
    if (roomOf(path) === undefined) continue
    const ran = ranLines.get(path) ?? new Set()
    ranLines.set(path, ran)
    for (const line of linesRun(readFileSync(path, 'utf8'), functions)) ran.add(line)
  }
}

for (const [room, floor] of Object.entries(FLOORS)) {
  const modules = readdirSync(join(BUILT, room), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.js'),
  )
  let lines = 0
  let ran = 0
  for (const file of modules) {
    const path = join(BUILT, room, file)
    lines += readFileSync(path, 'utf8').split('\n').filter(hasCode).length
    ran += ranLines.get(path)?.size ?? 0
  }
  const share = (100 * ran) / lines
  console.log(`src/${room}: ${share.toFixed(1)} % of ${lines} lines (at least ${floor} %)`)
  if (!(share >= floor)) {
    console.error(
      `src/${room} has tests of its own for ${share.toFixed(1)} % of its lines, less than ${floor} %: add tests`,
    )
    process.exitCode = 1
  }
}

function roomOf(path: string): string | undefined {
  const [room = ''] = relative(BUILT, path).split(sep)
  return room in FLOORS ? room : undefined
}

/** Ranges of a function and of its branches follow each other from the outermost inwards. */
function linesRun(source: string, functions: Script['functions']): number[] {
  const counts = new Uint8Array(source.length)
  const outermostFirst = functions
    .flatMap(({ ranges }) => ranges)
    .sort((a, b) => a.startOffset - b.startOffset || b.endOffset - a.endOffset)
  for (const { startOffset, endOffset, count } of outermostFirst)
    counts.fill(Math.min(count, 1), startOffset, endOffset)
  let offset = 0
  return source.split('\n').flatMap((text, line) => {
    const start = offset + text.search(/\S|$/)
    offset += text.length + 1
    return hasCode(text) && counts.subarray(start, offset - 1).includes(1) ? [line] : []
  })
}

/** Comments and lone brackets run with what is around them. */
function hasCode(line: string): boolean {
  return /\w/.test(line) && !/^\s*(?:\/\/|\/?\*)/.test(line)
}
