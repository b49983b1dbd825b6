/** What `npm ci` does in a checkout for the versions of Node that need an older driver of SQLite. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { atEnd } from '../support/at-end.js'

const run = promisify(execFile)

/** Runs it in a checkout of its own, with a Node of this Node-API, and an npm that prints its arguments and fails. */
async function prepare(t: TestContext, napi: number) {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-prepare-'))
  atEnd(t, () => rm(folder, { recursive: true, force: true }))
  await mkdir(join(folder, 'scripts'))
  for (const file of ['package.json', 'scripts/prepare.mjs']) await cp(join(PACKAGE_ROOT, file), join(folder, file))
  const npm = join(folder, 'npm.cjs')
  await writeFile(npm, 'console.log(...process.argv.slice(2)); process.exitCode = 1')
  const program = `Object.defineProperty(process, 'versions', { value: { ...process.versions, napi: '${napi}' } })`
  const args = [`--import=data:text/javascript,${encodeURIComponent(program)}`, join(folder, 'scripts/prepare.mjs')]
  return run(process.execPath, args, { env: { ...process.env, npm_execpath: npm } })
}

test('where the driver of Node 20 cannot be built, the installation ends well, and says what to do', async (t) => {
  const { stdout, stderr } = await prepare(t, 9)
  assert.match(stdout, /^install .* better-sqlite3-node20@npm:better-sqlite3@\^12/)
  assert.match(stderr, /^The SQLite driver of Node\.js 20 was not installed\. Install g\+\+, make and python3/m)
})

test('where nothing has to be compiled, nothing is installed', async (t) => {
  assert.deepEqual(await prepare(t, 10), { stdout: '', stderr: '' })
})
