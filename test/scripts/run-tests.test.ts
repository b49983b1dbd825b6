import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import { long } from '../support/long.js'
import { moduleUrl, TEST_ENDING, TEST_FOLDER } from '../support/modules.js'
import { runScript, startScript } from '../support/scripts.js'

const FILES = {
  passes: `import { test } from 'node:test'; test('passes', () => {})`,
  skips: `import { test } from 'node:test'; test('skips', { skip: 'no server' }, () => {})`,
  long: `import { test } from 'node:test'; import { long } from '${moduleUrl('test/support/long')}'
test('long', long(), () => {}); test('quick', () => {})`,
  fails: `import { test } from 'node:test'; test('fails', () => { throw new Error('on purpose') })`,
  hangs: `import { test } from 'node:test'
test('hangs', () => new Promise((resolve) => setTimeout(resolve, 20_000)))
test('hangs at its end', (t) => t.after(() => new Promise((resolve) => setTimeout(resolve, 20_000))))
test('says why it takes longer', { timeout: 60_000 }, () => new Promise((resolve) => setTimeout(resolve, 1_000)))`,
  loops: `import { test } from 'node:test'; test('passes', () => {}); test('loops', () => { while (true) {} })`,
  waits: `import { test } from 'node:test'; test('waits', () => {}); await new Promise((resolve) => setTimeout(resolve, 20_000))`,
  mocks: `import { test } from 'node:test'; test('mocks timers', (t) => t.mock.timers.enable())
test('takes longer than loading may', { timeout: 60_000 }, () => new Promise((resolve) => setTimeout(resolve, 12_000)))`,
  rejects: `import { test } from 'node:test'
test('rejects', () => { setTimeout(() => Promise.reject(new Error('too late'))) })`,
  hooks: `import { before, describe, it, test } from 'node:test'
describe('its start hangs', () => { before(() => new Promise(() => {})); test('needs it', () => {}) })
it('is a test, too', () => new Promise(() => {}))
test.skip('is left out', () => {})`,
  stays: `import { test } from 'node:test'
test('stays', () => { process.on('SIGTERM', () => {}); console.log('process', process.pid); while (true) {} })`,
  leaves: `import { test } from 'node:test'; test('leaves a timer behind', () => { setInterval(() => {}, 1_000) })`,
  exits: `import { test } from 'node:test'; test('exits', () => process.exit(0)); test('hidden', () => {})`,
  empty: 'export const nothing = 0',
}

describe('npm test', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-run-tests-'))
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    for (const [name, source] of Object.entries(FILES)) await writeFile(join(folder, name + TEST_ENDING), source)
  })
  after(() => rm(folder, { recursive: true, force: true }))

  function runTests(names: readonly string[], env = {}) {
    return runScript(
      'run-tests',
      names.map((name) => name + TEST_ENDING),
      { cwd: folder, env },
    )
  }

  function runWithin900Ms(...names: string[]) {
    return runTests(names, { TEST_LIMIT_MS: '900', TEST_NAMED_AFTER_MS: '300' })
  }

  test('shows what it skips, and ends with status 0', async () => {
    const { status, stdout } = await runTests(['passes', 'skips'])
    assert.equal(status, 0)
    assert.match(stdout, /# no server/)
    assert.match(stdout, /^ℹ tests 2$/m)
    assert.match(stdout, /^ℹ skipped 1$/m)
  })

  test('timers that a test mocks are not those of the runner', long(), async () => {
    const { status, stderr } = await runWithin900Ms('mocks')
    assert.deepEqual([status, stderr.includes('still loading')], [0, false])
  })

  test('a failing test is status 1', async () => {
    const { status, stdout } = await runTests(['passes', 'fails'])
    assert.equal(status, 1)
    assert.match(stdout, /on purpose/)
  })

  test(
    'a test that hangs is named while it runs, and fails by itself, as one does whose end hangs',
    long(),
    async () => {
      const { status, stdout } = await runWithin900Ms('hangs', 'passes')
      assert.equal(status, 1)
      assert.match(stdout, /^… hangs\.test\.[jt]s: nothing for 0\.\d s since "hangs" began$/m)
      assert.match(stdout, /^hangs\.test\.[jt]s: hangs\n.*timed out after 900ms/m)
      assert.match(stdout, /^hangs\.test\.[jt]s: hangs at its end$/m)
      assert.match(stdout, /^ℹ tests 4$/m)
      assert.match(stdout, /^ℹ pass 2$/m)
    },
  )

  test('hooks, and tests declared in other ways, have the limit, too', long(), async () => {
    const { status, stdout } = await runWithin900Ms('hooks')
    assert.equal(status, 1)
    assert.match(stdout, /^hooks\.test\.[jt]s: its start hangs\n.*timed out after 900ms/m)
    assert.match(stdout, /^hooks\.test\.[jt]s: is a test, too\n.*timed out after 900ms/m)
    assert.match(stdout, /^ℹ skipped 1$/m)
  })

  test(
    'a test that keeps its thread, and a file that does not end to load, are named and ended, and others run',
    long(),
    async () => {
      const { status, stdout } = await runWithin900Ms('loops', 'waits', 'passes', 'skips')
      assert.equal(status, 1)
      assert.match(stdout, /^… loops\.test\.[jt]s: nothing for \d\.\d s since "loops" began$/m)
      assert.match(stdout, /^loops\.test\.[jt]s: Its process ended \(SIGKILL\) after "loops" began/m)
      assert.match(stdout, /^waits\.test\.[jt]s: Its process ended \(status 1\) after "waits" ended/m)
      assert.match(stdout, /^✔ passes/m)
      assert.match(stdout, /^✔ skips/m)
    },
  )

  test('an interrupted run leaves no process behind, and names the tests that it ended', long(), async () => {
    const run = startScript('run-tests', [`stays${TEST_ENDING}`, `hangs${TEST_ENDING}`], { cwd: folder })
    const ended = Promise.all([text(run.stdout), once(run, 'close')])
    const [started] = await once(run.stdout, 'data')
    const [, pid] = /^process (\d+)$/m.exec(String(started)) ?? []
    run.kill('SIGINT')
    const [printed] = await ended
    assert.equal(run.exitCode, 1)
    assert.match(printed, /^stays\.test\.[jt]s: Its process ended \(SIGKILL\) after "stays" began/m)
    assert.match(printed, /^hangs\.test\.[jt]s: Its process ended \(SIGTERM\) after /m)
    assert.throws(() => process.kill(Number(pid), 0), { code: 'ESRCH' })
  })

  test('what a test throws after its end is status 1, and shown with the name of the test', async () => {
    const { status, stdout } = await runTests(['rejects', 'passes'])
    assert.equal(status, 1)
    assert.match(stdout, /^✖ Error: Test "rejects" .*"Error: too late"/m)
  })

  test('a test that keeps the process from ending is status 1, and what it left is named', async () => {
    const { status, stderr } = await runWithin900Ms('leaves')
    assert.equal(status, 1)
    assert.match(stderr, /something keeps their process from ending: .*Timeout/)
  })

  test('a test that ends the process is status 1', async () => {
    const { status, stdout } = await runTests(['exits', 'passes'])
    assert.equal(status, 1)
    assert.match(stdout, /Its process ended \(status 0\) after "exits" began/)
    assert.match(stdout, /✔ passes/)
  })

  test('a file without tests, and one that does not exist, are status 1', async () => {
    const empty = await runTests(['passes', 'empty'])
    assert.equal(empty.status, 1)
    assert.match(empty.stdout, /empty\.test\.[jt]s holds no test/)
    const missing = await runTests(['passes', 'missing'])
    assert.equal(missing.status, 1)
    assert.match(missing.stdout, /Cannot find module/)
  })

  test('without a driver of SQLite a whole run says what to install, and ends with status 1', async () => {
    const program = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.19.0' } })
      const { Module } = await import('node:module')
      const resolve = Module._resolveFilename
      Module._resolveFilename = function (name, ...others) {
        if (!name.startsWith('better-sqlite3')) return resolve.call(this, name, ...others)
        throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' })
      }`
    const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(program)}` }
    await mkdir(join(folder, TEST_FOLDER), { recursive: true })
    const { status, stdout } = await runScript('run-tests', [], { cwd: folder, env })
    assert.equal(status, 1)
    assert.match(stdout, /^✖ SQLite on Node\.js 20\.19\.0 needs an older driver: run "npm install /m)
    assert.match(stdout, /^ℹ tests 0$/m)
  })

  test('without arguments test/ is run but for long tests and browsers, which --long runs; no test is status 1', async () => {
    const deep = join(folder, TEST_FOLDER, 'deep')
    const browser = join(folder, TEST_FOLDER, 'browser')
    await mkdir(deep, { recursive: true })
    await mkdir(browser)
    const none = await runTests([])
    assert.equal(none.status, 1)
    assert.match(none.stdout, /No test ran/)

    await writeFile(join(deep, `a${TEST_ENDING}`), FILES.long)
    await writeFile(join(deep, `c${TEST_ENDING}`), FILES.passes)
    await writeFile(join(browser, `b${TEST_ENDING}`), FILES.fails)
    const quick = await runTests([])
    assert.equal(quick.status, 0)
    assert.match(quick.stdout, /^﹣ 1 skipped # it takes long: npm run test:all$/m)
    assert.match(quick.stdout, /^ℹ tests 3$/m)

    const named = await runScript('run-tests', ['test/browser'], { cwd: folder })
    assert.equal(named.status, 1)
    assert.match(named.stdout, /^ℹ tests 1$/m)

    const long = await runScript('run-tests', ['--long'], { cwd: folder })
    assert.equal(long.status, 1)
    assert.match(long.stdout, /^ℹ tests 3$/m)
    assert.match(long.stdout, /^ℹ skipped 0$/m)
  })
})
