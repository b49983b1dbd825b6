import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { PACKAGE_ROOT } from '../../src/package-root.js'
import { ratelimit } from '../support/scripts.js'

const COMMANDS = ['alerts', 'cleanup', 'hash-password', 'migrate', 'prune-events', 'reload-rules']

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
    for (const command of COMMANDS) assert.match(stdout, new RegExp(`^  ${command} +[A-Z]`, 'm'))
  })

  test('--version prints the version of the package', async () => {
    const { version } = JSON.parse(readFileSync(join(PACKAGE_ROOT, 'package.json'), 'utf8'))
    assert.deepEqual(await ratelimit(['--version']), { status: 0, stdout: `${version}\n`, stderr: '' })
  })

  test('without a command it is wrong usage', async () => {
    assert.deepEqual(await ratelimit([]), {
      status: 2,
      stdout: '',
      stderr: 'ratelimit: no command given (see ratelimit --help)\n',
    })
  })

  test('a mistyped command is wrong usage, and the right one is named', async () => {
    assert.deepEqual(await ratelimit(['alert']), {
      status: 2,
      stdout: '',
      stderr: 'ratelimit: unknown command "alert": did you mean "alerts"? (see ratelimit --help)\n',
    })
  })

  for (const command of COMMANDS) {
    test(`${command} --help says what it takes, with an example, and does nothing`, async () => {
      const { status, stdout, stderr } = await ratelimit([command, '--help', '--nonsense'], { cwd: folder })
      assert.equal(status, 0)
      assert.equal(stderr, '')
      assert.match(stdout, new RegExp(`^Usage: ratelimit ${command} \\[options\\]\n`))
      assert.match(stdout, /\n {2}--json +/)
      assert.match(stdout, new RegExp(`\nExample:\n.*ratelimit ${command}`))
      assert.match(stdout, /\nExit status: 0 done, 1 something failed, 2 wrong usage\./)
    })
  }

  test('a mistyped option is wrong usage, and the right one is named', async () => {
    const { status, stdout, stderr } = await ratelimit(['cleanup', '--dri-run'], { cwd: folder })
    assert.equal(status, 2)
    assert.equal(stdout, '')
    assert.equal(
      stderr,
      'ratelimit cleanup: unknown option "--dri-run": did you mean "--dry-run"? (see ratelimit cleanup --help)\n',
    )
  })

  test('settings come from .env in the working directory, and the environment wins', async () => {
    await writeFile(join(folder, '.env'), 'RATELIMIT_ALERT_THRESHOLD=7\nRATELIMIT_DATABASE_URL=file:./from-dotenv.db\n')
    const fromFile = await ratelimit(['alerts', '--json'], { cwd: folder })
    assert.equal(JSON.parse(fromFile.stdout).threshold, 7)
    const migrated = await ratelimit(['migrate', '--json'], { cwd: folder })
    assert.equal(JSON.parse(migrated.stdout).database, 'file:./from-dotenv.db')
    const fromEnvironment = await ratelimit(['alerts', '--json'], {
      cwd: folder,
      env: { RATELIMIT_ALERT_THRESHOLD: '9' },
    })
    assert.equal(JSON.parse(fromEnvironment.stdout).threshold, 9)
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
    const env = { RATELIMIT_DATABASE_URL: 'file:./a-folder.db' }
    assert.equal((await ratelimit(['cleanup'], { cwd: folder, env })).stderr.split('\n').length, 2)
    assert.match((await ratelimit(['cleanup'], { cwd: folder, env: { ...env, DEBUG: '1' } })).stderr, /\n {4}at /)
  })

  test('a database file that is only created now is mentioned on stderr', async () => {
    const env = { RATELIMIT_DATABASE_URL: 'file:./new.db' }
    const first = await ratelimit(['prune-events'], { cwd: folder, env })
    assert.equal(first.status, 0)
    assert.match(first.stderr, /^ratelimit: there is no database at .*new\.db yet, creating an empty one\n$/)
    assert.equal((await ratelimit(['prune-events'], { cwd: folder, env })).stderr, '')
  })
})
