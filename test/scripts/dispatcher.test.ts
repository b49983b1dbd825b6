import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { COMMANDS } from '../../scripts/commands/index.js'
import { PACKAGE_ROOT } from '../../src/package-root.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit', () => {
  let folder = ''
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-cli-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))

  test('--help lists every command', async () => {
    const { status, stdout, stderr } = await ratelimit(['--help'])
    assert.equal(status, 0)
    assert.equal(stderr, '')
    for (const { name, summary } of COMMANDS) assert.match(stdout, new RegExp(`^  ${name} +${summary}$`, 'm'))
  })

  test('--version prints the version of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
    assert.deepEqual(await ratelimit(['--version']), { status: 0, stdout: `${version}\n`, stderr: '' })
  })

  test('a mistyped command is wrong usage, and the right one is named', async () => {
    assert.deepEqual(await ratelimit(['alert']), {
      status: 2,
      stdout: '',
      stderr: 'ratelimit: unknown command "alert": did you mean "alerts"? (see ratelimit --help)\n',
    })
  })

  test('without a command it is wrong usage', async () => {
    const { status, stdout, stderr } = await ratelimit([])
    assert.deepEqual([status, stdout, stderr], [2, '', 'ratelimit: no command given (see ratelimit --help)\n'])
  })

  for (const { name, help } of COMMANDS) {
    test(`the help of ${name} says what it takes, with an example`, () => {
      const text = help.join('\n')
      assert.match(text, new RegExp(`^Usage: ratelimit ${name} \\[options\\](?: <\\w+>)*\n`))
      assert.match(text, /\nOptions:\n(?: {2}--.+\n)* {2}--json +\S/)
      assert.match(text, new RegExp(`\nExample:\n.*ratelimit ${name}`))
      assert.match(text, /\nExit status: 0 done, 1 something failed, 2 wrong usage\./)
      assert.ok(help.every((line) => line.length <= 100))
    })
  }

  test('--help shows the help, whatever else is given, and does nothing', async () => {
    const { status, stdout, stderr } = await ratelimit(['cleanup', '--nonsense', '--help'], { cwd: folder })
    assert.deepEqual([status, stderr], [0, ''])
    assert.match(stdout, /^Usage: ratelimit cleanup \[options\]\n/)
    assert.deepEqual(await readdir(folder), [])
  })

  test('settings come from .env in the working directory, and the environment wins', async () => {
    await writeFile(join(folder, '.env'), 'RATELIMIT_ALERT_THRESHOLD=7\nRATELIMIT_DATABASE_URL=file:./from-dotenv.db\n')
    const fromFile = await ratelimit(['alerts', '--json'], { cwd: folder })
    assert.equal(JSON.parse(fromFile.stdout).threshold, 7)
    assert.match(fromFile.stderr, /from-dotenv\.db/)
    const fromEnvironment = await ratelimit(['alerts', '--json'], {
      cwd: folder,
      env: { RATELIMIT_ALERT_THRESHOLD: '9' },
    })
    assert.equal(JSON.parse(fromEnvironment.stdout).threshold, 9)
  })

  test('a .env may begin with a byte order mark, and one that cannot be read is status 1', async () => {
    const other = join(folder, 'other')
    await mkdir(other)
    await writeFile(join(other, '.env'), '\uFEFFRATELIMIT_ALERT_THRESHOLD=7\n')
    assert.equal(JSON.parse((await ratelimit(['alerts', '--json'], { cwd: other })).stdout).threshold, 7)
    await rm(join(other, '.env'))
    await mkdir(join(other, '.env'))
    const { status, stdout, stderr } = await ratelimit(['alerts'], { cwd: other })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit alerts: \.env in the working directory cannot be read: EISDIR.*\n$/)
  })

  test('a setting that is wrong is one line that names it, and status 1', async () => {
    const { status, stdout, stderr } = await ratelimit(['cleanup'], { env: { RATELIMIT_RULE_CACHE_TIMEOUT: 'soon' } })
    assert.equal(status, 1)
    assert.equal(stdout, '')
    assert.match(stderr, /^ratelimit cleanup: Setting "RATELIMIT_RULE_CACHE_TIMEOUT" is "soon": .*\n$/)
  })

  test('a database that cannot be reached is one line without the password, and status 1', async () => {
    const env = { RATELIMIT_DATABASE_URL: 'postgresql://somebody:secret@127.0.0.1:9/nowhere' }
    const { status, stdout, stderr } = await ratelimit(['reload-rules'], { env })
    assert.equal(status, 1)
    assert.equal(stdout, '')
    assert.match(stderr, /^ratelimit reload-rules: .*ECONNREFUSED.*\n$/)
    assert.doesNotMatch(stderr, /secret/)
  })

  test('DEBUG adds the stack trace of a failure', async () => {
    await mkdir(join(folder, 'a-folder.db'))
    const env = { RATELIMIT_DATABASE_URL: 'file:./a-folder.db', DEBUG: '1' }
    assert.match((await ratelimit(['cleanup'], { cwd: folder, env })).stderr, /^ratelimit cleanup: .*\n.*\n {4}at /)
  })

  test('DEBUG shows no character that a terminal obeys', async () => {
    const name = '\u001b[2J.db'
    await mkdir(join(folder, name))
    const env = { RATELIMIT_DATABASE_URL: `file:./${name}`, DEBUG: '1' }
    const { stderr } = await ratelimit(['cleanup'], { cwd: folder, env })
    assert.match(stderr, /\n {4}at /)
    assert.ok(!stderr.includes('\u001b'), JSON.stringify(stderr))
  })

  test('a database file that is only created now is mentioned on stderr', async () => {
    const env = { RATELIMIT_DATABASE_URL: 'file:./new.db' }
    const first = await ratelimit(['prune-events'], { cwd: folder, env })
    assert.equal(first.status, 0)
    assert.match(first.stderr, /^ratelimit: there is no database at .*new\.db yet, creating an empty one\n$/)
  })
})
