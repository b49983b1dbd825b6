/**
 * Checks a packed package: its exports and types, its size, and that npm would publish it as it is.
 *
 *     npm run check:package -- fastify-smart-ratelimit-0.1.0.tgz
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/package-root.js'

/**
 * The most that the package may have, unpacked. Of that 1.9 MB are the bundled parts of Prisma and of TypeBox, with
 * Prisma's query compilers for two databases (0.7 MB) and the types of its client (0.6 MB).
 */
const MAX_BYTES = 3_800_000

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
  .filter((line) => /^npm (?:warn|error)/i.test(line) && !/logged in|Unknown user config/.test(line))
if (status !== 0 || complaints.length > 0) throw new Error(`npm would not publish it as it is:\n${stderr}`)
const published: { unpackedSize?: number; entryCount?: number } = Object(firstValue(JSON.parse(stdout)))
const { unpackedSize = Number.NaN, entryCount = 0 } = published
console.log(`${entryCount} files, ${(unpackedSize / 1e6).toFixed(2)} MB unpacked`)
if (!(unpackedSize <= MAX_BYTES)) throw new Error(`The package is larger than ${MAX_BYTES / 1e6} MB`)

/** npm 11 answers the package itself, or an object with the package by its name. */
function firstValue(answer: object): unknown {
  return 'unpackedSize' in answer ? answer : Object.values(answer)[0]
}
