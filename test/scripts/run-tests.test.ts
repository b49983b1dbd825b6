import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { runScript } from '../support/scripts.js'

const FILES = {
  'passes.test.ts': `import { test } from 'node:test'; test('passes', (): void => {})`,
  'skips.test.ts': `import { test } from 'node:test'; test('skips', { skip: 'no server' }, () => {})`,
  'fails.test.ts': `import { test } from 'node:test'; test('fails', () => { throw new Error('on purpose') })`,
  'empty.test.ts': 'const nothing: number = 0; export { nothing }',
}

describe('npm test', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-run-tests-'))
    for (const [name, source] of Object.entries(FILES)) await writeFile(join(folder, name), source)
  })
  after(() => rm(folder, { recursive: true, force: true }))

  function runTests(...files: string[]) {
    return runScript('run-tests.ts', files, { cwd: folder })
  }

  test('runs TypeScript, shows what it skips, and ends with status 0', async () => {
    const { status, stdout } = await runTests('passes.test.ts', 'skips.test.ts')
    assert.equal(status, 0)
    assert.match(stdout, /# no server/)
    assert.match(stdout, /^ℹ tests 2$/m)
    assert.match(stdout, /^ℹ skipped 1$/m)
  })

  test('a failing test is status 1', async () => {
    const { status, stdout } = await runTests('passes.test.ts', 'fails.test.ts')
    assert.equal(status, 1)
    assert.match(stdout, /on purpose/)
  })

  test('a file without tests, and one that does not exist, are status 1', async () => {
    const empty = await runTests('passes.test.ts', 'empty.test.ts')
    assert.equal(empty.status, 1)
    assert.match(empty.stderr, /empty\.test\.ts holds no test/)
    assert.equal((await runTests('passes.test.ts', 'missing.test.ts')).status, 1)
  })

  test('without arguments all of test/ is run, and no test at all is status 1', async () => {
    await mkdir(join(folder, 'test', 'deep'), { recursive: true })
    const none = await runTests()
    assert.equal(none.status, 1)
    assert.match(none.stderr, /No test ran/)
    await writeFile(join(folder, 'test', 'deep', 'a.test.ts'), FILES['passes.test.ts'])
    const one = await runTests()
    assert.equal(one.status, 0)
    assert.match(one.stdout, /^ℹ tests 1$/m)
  })
})
