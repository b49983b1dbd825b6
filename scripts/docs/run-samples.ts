/**
 * `npm run docs:samples`: runs every sample of README and documentation against the build. Blocks of `ts` and `js` are
 * type-checked together and executed; `sh` is executed, page by page, in a folder of its own; an `output` block holds
 * what the sample before it prints; `json` has to be valid. Flags of a fence: `file=<name>` saves a block for the
 * commands of its page, `background` starts a command that goes on, `fragment` is only type-checked, `not-run` is
 * neither, and `ci` is what `.ci/run` runs itself. Redis and PostgreSQL are those of the tests.
 */
import { execFile } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { transformSync } from 'esbuild'
import pg from 'pg'
import { errorMessage } from '../../src/ground/errors.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { printLine, warnLine } from '../commands/support/terminal.js'
import { runCommand, type Sandbox, stopAll } from './sample-process.js'
import { describeDifference, documentedPages, readSamples, type Sample } from './samples.js'

const FOLDER = join(PACKAGE_ROOT, 'dist', 'docs-samples')
const SOURCES = join(PACKAGE_ROOT, 'scripts', 'docs', 'surroundings')
const SURROUNDINGS = join(FOLDER, 'surroundings')
const POSTGRES = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'
const REDIS = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379'
const DATABASE = `docs_samples_${process.pid}`
/** Names that a sample may use without declaring them, by the modules of the surroundings that have them. */
const GIVEN = {
  limited: ['app', 'client'],
  names: ['rateLimitPlugin', 'handler', 'complexityOf', 'answerTo', 'exportOrders'],
}

const isSkipped = ({ flags }: Sample) => flags.includes('not-run') || flags.includes('ci')
const isProgram = (sample: Sample) => ['ts', 'js'].includes(sample.language) && !isSkipped(sample)
const fileFlag = ({ flags }: Sample) => flags.find((flag) => flag.startsWith('file='))?.slice('file='.length)
const toSlug = (page: string) => page.replace(/\.md$/, '').replaceAll('/', '-').toLowerCase()

/** Returns a sample as a module: with the names that it takes for granted imported, and its app closed at the end. */
function toModule(sample: Sample, folder: string): string {
  const { code } = sample
  const isDeclared = (name: string) => new RegExp(`(const|let|function|import) [^=;(\\n]*\\b${name}\\b`).test(code)
  const isUsed = (name: string) => new RegExp(`(?<![.\\w'/-])${name}\\b(?!['/:-])`).test(code)
  const imports = Object.entries(GIVEN).flatMap(([module, names]) =>
    names
      .filter((name) => isUsed(name) && !isDeclared(name))
      .map((name) => {
        const file = name === 'app' && /register\(rateLimitPlugin\b/.test(code) ? 'bare' : module
        return `import { ${name} } from '${relative(folder, join(SURROUNDINGS, `${file}.mjs`))}'\n`
      }),
  )
  if (fileFlag(sample) !== undefined) return code
  const close = /\bapp\b/.test(code) && !/app\.close\(\)/.test(code) ? 'await app.close()\n' : ''
  return `${imports.join('')}${code}\n${close}export {}\n`
}

function sampleFile(sample: Sample): string {
  return fileFlag(sample) ?? `line-${sample.line}.${sample.language === 'ts' ? 'mts' : 'mjs'}`
}

/** Writes a module, and beside one in TypeScript what Node.js runs of it. */
function writeProgram(file: string, code: string): void {
  writeFileSync(file, code)
  if (!file.endsWith('.mts')) return
  writeFileSync(file.replace(/mts$/, 'mjs'), transformSync(code, { loader: 'ts', format: 'esm' }).code)
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('No port is free')
  return address.port
}

/** Returns the sandbox in which a page's samples run, with the package installed. */
async function createSandbox(page: string): Promise<Sandbox> {
  const folder = join(FOLDER, toSlug(page))
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '.bin'), { recursive: true })
  symlinkSync(PACKAGE_ROOT, join(modules, 'fastify-smart-ratelimit'))
  // The command is there as npm installs it: it can be executed.
  const command = join(PACKAGE_ROOT, 'dist', 'scripts', 'ratelimit.js')
  chmodSync(command, 0o755)
  symlinkSync(command, join(modules, '.bin', 'ratelimit'))
  const port = await freePort()
  const database = new URL(POSTGRES)
  database.pathname = DATABASE
  // The words of the pages, and what they are here.
  const meanings = new Map([
    ['localhost:3000', `127.0.0.1:${port}`],
    ['port: 3000', `port: ${port}`],
    ['postgresql://app@db.example/app', database.href],
    ['redis://localhost:6379', REDIS],
  ])
  return { folder, meanings }
}

function meant(text: string, { meanings }: Sandbox): string {
  let result = text
  for (const [said, is] of meanings) result = result.replaceAll(said, is)
  return result
}

function said(text: string, { meanings }: Sandbox): string {
  let result = text
  for (const [words, is] of meanings) result = result.replaceAll(is, words)
  return result
}

/** Runs the samples of a page in their order, and returns what is wrong. */
async function runPage(samples: readonly Sample[], sandbox: Sandbox): Promise<readonly string[]> {
  const complaints: string[] = []
  let printed: string | undefined
  for (const sample of samples) {
    const complain = (what: string) => complaints.push(`${sample.page}:${sample.line} ${what}`)
    const { language, flags, code } = sample
    try {
      if (flags.includes('output')) {
        if (printed === undefined) complain('is the output of nothing')
        else {
          const difference = describeDifference(printed, code)
          if (difference !== null) complain(difference)
        }
        continue
      }
      printed = undefined
      if (language === 'json') JSON.parse(code)
      if (flags.includes('fragment') || isSkipped(sample)) continue
      if (isProgram(sample) && fileFlag(sample) === undefined) {
        const run = await runCommand(sandbox, `node ${sampleFile(sample).replace(/mts$/, 'mjs')}`)
        printed = said(run, sandbox)
      }
      if (language === 'sh') {
        const run = await runCommand(sandbox, meant(code, sandbox), { background: flags.includes('background') })
        printed = said(run, sandbox)
      }
    } catch (error) {
      complain(errorMessage(error))
    }
  }
  await stopAll(sandbox)
  return complaints
}

/** Type-checks all samples in one program, and returns the compiler's complaints. */
async function checkTypes(): Promise<readonly string[]> {
  writeFileSync(
    join(FOLDER, 'tsconfig.json'),
    JSON.stringify({
      extends: '../../tsconfig.json',
      compilerOptions: {
        allowJs: true,
        checkJs: true,
        exactOptionalPropertyTypes: false,
        noUncheckedIndexedAccess: false,
        noUnusedLocals: false,
        noUnusedParameters: false,
      },
      include: ['**/*.mts', '**/*.mjs', '**/*.cjs'],
      exclude: ['**/node_modules'],
    }),
  )
  const tsc = join(PACKAGE_ROOT, 'node_modules', '.bin', 'tsc')
  try {
    await promisify(execFile)(tsc, ['-p', join(FOLDER, 'tsconfig.json'), '--pretty', 'false'], { cwd: FOLDER })
    return []
  } catch (error) {
    const { stdout = errorMessage(error) } = error instanceof Error ? Object(error) : {}
    return [String(stdout).trim()]
  }
}

async function withDatabase<Result>(work: () => Promise<Result>): Promise<Result> {
  const query = async (sql: string) => {
    const connection = new pg.Client(POSTGRES)
    await connection.connect()
    await connection.query(sql).finally(() => connection.end())
  }
  await query(`CREATE DATABASE ${DATABASE}`)
  return await work().finally(() => query(`DROP DATABASE ${DATABASE} WITH (FORCE)`))
}

async function runSamples(only: readonly string[]): Promise<readonly string[]> {
  rmSync(FOLDER, { recursive: true, force: true })
  mkdirSync(SURROUNDINGS, { recursive: true })
  for (const name of readdirSync(SOURCES)) {
    writeProgram(join(SURROUNDINGS, name), readFileSync(join(SOURCES, name), 'utf8'))
  }
  const pages = documentedPages(PACKAGE_ROOT).filter((page) => only.length === 0 || only.includes(page))
  const work: (() => Promise<readonly string[]>)[] = []
  let count = 0
  for (const page of pages) {
    const samples = readSamples(PACKAGE_ROOT, page)
    const sandbox = await createSandbox(page)
    for (const sample of samples) {
      const isSaved = fileFlag(sample) !== undefined
      if (!isSaved && !isProgram(sample)) continue
      const text = isProgram(sample) ? toModule(sample, sandbox.folder) : sample.code
      writeProgram(join(sandbox.folder, sampleFile(sample)), meant(text, sandbox))
    }
    const runnable = samples.filter(({ language }) => ['ts', 'js', 'sh'].includes(language))
    count += runnable.length
    for (const { line } of runnable.filter(({ flags }) => flags.includes('not-run')))
      printLine(`not run: ${page}:${line}`)
    work.push(() => runPage(samples, sandbox))
  }
  const complaints: string[] = []
  const check = checkTypes().then((found) => complaints.push(...found))
  const next = async (): Promise<void> => {
    const page = work.shift()
    if (page === undefined) return
    complaints.push(...(await page()))
    return next()
  }
  await Promise.all([check, ...Array.from({ length: availableParallelism() }, next)])
  printLine(`${count} samples on ${pages.length} pages, ${complaints.length} complaints`)
  return complaints
}

const complaints = await withDatabase(() => runSamples(process.argv.slice(2)))
for (const complaint of complaints) warnLine(complaint)
process.exitCode = complaints.length === 0 ? 0 : 1
