/**
 * Checks a packed package: its exports and types, its size, and that npm would publish it as it is. With RELEASE=true it
 * also checks what npm would only refuse at the very end: that package.json says where the package comes from.
 *
 *     npm run check:package -- fastify-smart-ratelimit-0.1.0.tgz
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

/** The most that the package may have, unpacked, without the packages that it bundles. */
const MAX_OWN_BYTES = 2_900_000
/** Prisma, with its query compilers for two databases (0.7 MB) and the types of its client (0.6 MB). */
const MAX_BUNDLED_BYTES = 1_800_000
const BUNDLED = /^dist\/src\/(?:database\/)?generated\//

const [tarball] = process.argv.slice(2)
if (tarball === undefined) throw new Error('Give the file that "npm pack" wrote')

function run(command: string, args: readonly string[]): void {
  execFileSync(join(PACKAGE_ROOT, 'node_modules', '.bin', command), args, { stdio: 'inherit' })
}

run('publint', ['--strict', tarball])
// CommonJS loads the package by require(esm), and Node.js has known "exports" for longer than this package exists.
run('attw', ['--profile', 'esm-only', '--format', 'ascii', tarball])

const ORIGIN = ['repository', 'bugs', 'homepage', 'author'] as const
const manifest: Partial<Record<string, unknown>> = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
const unknown = ORIGIN.filter((field) => manifest[field] === undefined)
const { RELEASE, GITHUB_REPOSITORY = '' } = process.env
if (unknown.length > 0) {
  const complaint = `package.json has no ${unknown.join(', ')}: fill in what "Releases" of CONTRIBUTING.md says`
  if (RELEASE === 'true') throw new Error(complaint)
  console.log(`Cannot be published yet: ${complaint}`)
} else if (!JSON.stringify(manifest.repository).includes(GITHUB_REPOSITORY)) {
  throw new Error(
    `"repository" of package.json is not ${GITHUB_REPOSITORY}, where this runs: npm refuses to publish that`,
  )
}

const { stdout, stderr, status } = spawnSync('npm', ['publish', '--dry-run', '--json', tarball], { encoding: 'utf8' })
const complaints = stderr
  .split('\n')
  .filter((line) => /^npm (?:warn|error)/i.test(line) && !/logged in|Unknown (?:env|user) config/.test(line))
if (status !== 0 || complaints.length > 0) throw new Error(`npm would not publish it as it is:\n${stderr}`)
const published: { files?: { path: string; size: number }[] } = Object(firstValue(JSON.parse(stdout)))
const files = published.files ?? []
const bundledBytes = sum(files.filter(({ path }) => BUNDLED.test(path)))
const ownBytes = sum(files) - bundledBytes
console.log(
  `${files.length} files, unpacked ${toMegabytes(ownBytes)} and ${toMegabytes(bundledBytes)} of bundled packages`,
)
if (!(files.length > 0 && ownBytes <= MAX_OWN_BYTES && bundledBytes <= MAX_BUNDLED_BYTES)) {
  throw new Error(`The package is larger than ${toMegabytes(MAX_OWN_BYTES)} and ${toMegabytes(MAX_BUNDLED_BYTES)}`)
}

function sum(some: readonly { size: number }[]): number {
  return some.reduce((bytes, { size }) => bytes + size, 0)
}

function toMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(2)} MB`
}

/** npm 11 answers the package itself, or an object with the package by its name. */
function firstValue(answer: object): unknown {
  return 'files' in answer ? answer : Object.values(answer)[0]
}
