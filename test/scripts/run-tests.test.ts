import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { TEST_ENDING, TEST_FOLDER } from '../support/modules.js'
import { runScript } from '../support/scripts.js'

const FILES = {
  passes: `import { test } from 'node:test'; test('passes', () => {})`,
  skips: `import { test } from 'node:test'; test('skips', { skip: 'no server' }, () => {})`,
  fails: `import { test } from 'node:test'; test('fails', () => { throw new Error('on purpose') })`,
  exits: `import { test } from 'node:test'; test('exits', () => process.exit(0)); test('hidden', () => {})`,
  empty: 'export const nothing = 0',
}

describe('npm test', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-run-tests-'))
    for (const [name, source] of Object.entries(FILES)) await writeFile(join(folder, name + TEST_ENDING), source)
  })
  after(() => rm(folder, { recursive: true, force: true }))

  function runTests(...names: string[]) {
    const files = names.map((name) => name + TEST_ENDING)
    return runScript('run-tests', files, { cwd: folder })
  }

  test('shows what it skips, and ends with status 0', async () => {
    const { status, stdout } = await runTests('passes', 'skips')
    assert.equal(status, 0)
    assert.match(stdout, /# no server/)
    assert.match(stdout, /^ℹ tests 2$/m)
    assert.match(stdout, /^ℹ skipped 1$/m)
  })

  test('a failing test is status 1', async () => {
    const { status, stdout } = await runTests('passes', 'fails')
    assert.equal(status, 1)
    assert.match(stdout, /on purpose/)
  })

  test('a test that ends the process is status 1', async () => {
    const { status, stdout } = await runTests('exits', 'passes')
    assert.equal(status, 1)
    assert.match(stdout, /A test ended the process/)
  })

  test('a file without tests, and one that does not exist, are status 1', async () => {
    const empty = await runTests('passes', 'empty')
    assert.equal(empty.status, 1)
    assert.match(empty.stderr, /empty\.test\.[jt]s holds no test/)
    const missing = await runTests('passes', 'missing')
    assert.equal(missing.status, 1)
    assert.match(missing.stdout, /Cannot find module/)
  })

  test('without arguments all of test/ but its browser folder is run, and no test at all is status 1', async () => {
    const deep = join(folder, TEST_FOLDER, 'deep')
    await mkdir(deep, { recursive: true })
    const none = await runTests()
    assert.equal(none.status, 1)
    assert.match(none.stderr, /No test ran/)
    await writeFile(join(deep, `a${TEST_ENDING}`), FILES.passes)
    const browser = join(folder, TEST_FOLDER, 'browser')
    await mkdir(browser)
    await writeFile(join(browser, `b${TEST_ENDING}`), FILES.fails)
    const one = await runTests()
    assert.equal(one.status, 0)
    assert.match(one.stdout, /^ℹ tests 1$/m)
    const named = await runScript('run-tests', ['test/browser'], { cwd: folder })
    assert.equal(named.status, 1)
    assert.match(named.stdout, /^ℹ tests 1$/m)
  })
})
