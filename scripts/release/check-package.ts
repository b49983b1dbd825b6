/**
 * Checks a packed package: its exports and types, its size, and that npm would publish it as it is.
 *
 *     npm run check:package -- fastify-smart-ratelimit-0.1.0.tgz
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'

/** The most that the package may have, unpacked, without the packages that it bundles. */
const MAX_OWN_BYTES = 2_800_000
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
