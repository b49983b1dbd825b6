import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { createProgram } from '../../scripts/commands/program.js'
import { DEFAULT_DATABASE_URL, DEFAULT_SCHEMA } from '../../src/database/database-url.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { moduleUrl } from '../support/modules.js'
import { ratelimit, runModule } from '../support/scripts.js'

const program = createProgram(async () => undefined)
const COMMANDS = commandsBelow(program).map((words) => words.join(' '))

function commandsBelow({ commands }: CommandUnknownOpts): string[][] {
  return commands.flatMap((command) =>
    command.commands.length === 0
      ? [[command.name()]]
      : commandsBelow(command).map((words) => [command.name(), ...words]),
  )
}

describe('the help of ratelimit', () => {
  test('lists every command', async () => {
    const { status, stdout, stderr } = await ratelimit(['--help'])
    assert.deepEqual([status, stderr], [0, ''])
    for (const command of program.commands) assert.match(stdout, new RegExp(`^  ${command.name()} +\\S`, 'm'))
  })

  test('is printed on stderr where the command is missing, with status 2', async () => {
    const { stdout: help } = await ratelimit(['--help'])
    assert.deepEqual(await ratelimit([]), { status: 2, stdout: '', stderr: help })
  })

  test('of a command is shown by "help" and by "--help", whatever else is given', async () => {
    const help = await ratelimit(['alerts', '--help'])
    assert.deepEqual([help.status, help.stderr], [0, ''])
    assert.deepEqual(await ratelimit(['help', 'alerts']), help)
    assert.deepEqual(await ratelimit(['alerts', '--nonsense', '-h']), help)
  })

  for (const name of COMMANDS) {
    test(`of ${name} says what it takes, with an example`, async () => {
      const { stdout } = await ratelimit([...name.split(' '), '--help'])
      assert.match(stdout, new RegExp(`^Usage: ratelimit ${name} \\[options\\](?: <\\w+>)*\n`))
      assert.match(stdout, /\nOptions:\n(?: {2}.+\n)* {2}--json +\S/)
      assert.match(stdout, new RegExp(`\nExample:\n.*ratelimit ${name}`))
      assert.match(stdout, /\nExit status: 0 done, 1 something failed, 2 wrong usage\./)
      for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line)
    })
  }

  test('names the environment, and what holds without it', async () => {
    const help = (await ratelimit(['alerts', '--help'], { columns: 200 })).stdout
    assert.match(help, /^ {2}RATELIMIT_ALERT_COOLDOWN +\S/m)
    assert.match(help, /--threshold .*\(default: RATELIMIT_ALERT_THRESHOLD\)/)
    assert.ok(help.includes(`(default: ${DEFAULT_DATABASE_URL})`))
    assert.ok(help.includes(`(default: ${DEFAULT_SCHEMA})`))
  })

  test('loads nothing that a command works with', async () => {
    const { stdout } = await runModule(`
      import { createRequire } from 'node:module'
      import { ratelimit } from ${JSON.stringify(moduleUrl('scripts/commands/run'))}
      await ratelimit(['alerts', '--help'], process)
      await ratelimit(['alerts', '--threshold', 'many'], process)
      console.log(Object.keys(createRequire(import.meta.url).cache).join('\\n'))
    `)
    assert.match(stdout, /commander/)
    assert.doesNotMatch(stdout, /better-sqlite3|@prisma|\bpg\b|fastify\/fastify|nodemailer/)
  })
})

test('--version prints the version of the package', async () => {
  const { version } = createRequire(import.meta.url)(join(PACKAGE_ROOT, 'package.json'))
  assert.deepEqual(await ratelimit(['--version']), { status: 0, stdout: `${version}\n`, stderr: '' })
})

describe('wrong usage of ratelimit', () => {
  const STALE_DAYS = "option '--stale-days <int>' argument"
  const wrongDays = ['-1', '36501', '99999999999999999999', 'abc', '1e2', '7.5', ' 7', '', '--dry-run']
  for (const [args, complaint] of [
    [['alert'], "unknown command 'alert' (Did you mean alerts?)"],
    [['--verison'], "unknown option '--verison' (Did you mean --version?)"],
    [['cleanup', '--dry-rum'], "unknown option '--dry-rum' (Did you mean --dry-run?)"],
    [['cleanup', '--dry-run=yes'], "unknown option '--dry-run=yes'"],
    [['cleanup', '7'], "too many arguments for 'cleanup'. Expected 0 arguments but got 1."],
    [['cleanup', '--stale-days'], `${STALE_DAYS} missing`],
    ...wrongDays.map((value) => [
      ['cleanup', '--stale-days', value],
      `${STALE_DAYS} '${value}' is invalid. Give a whole number of days, 0 to 36500`,
    ]),
  ] as [string[], string][]) {
    test(`${args.join(' ')} is status 2, and one line that says what is wrong`, async () => {
      const name = args[0] === 'cleanup' ? 'ratelimit cleanup' : 'ratelimit'
      const stderr = `${name}: ${complaint} (see ${name} --help)\n`
      assert.deepEqual(await ratelimit(args), { status: 2, stdout: '', stderr })
    })
  }

  test('cannot command the terminal', async () => {
    const { stderr } = await ratelimit(['cleanup', '--\u001b[2J\u202e'])
    assert.match(stderr, /unknown option '--\\u001b\[2J\\u202e'/)
  })
})

describe('ratelimit', () => {
  let database: TestDatabase
  let folder = ''
  const workingDirectory = process.cwd()
  before(async () => {
    database = await openTestDatabase('sqlite')
    await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '5/m' } })
    folder = await mkdtemp(join(tmpdir(), 'ratelimit-cli-'))
    process.chdir(folder)
  })
  after(async () => {
    process.chdir(workingDirectory)
    await rm(folder, { recursive: true, force: true })
    await database.close()
  })

  /** What a command has to be given besides its name, on stdin too. */
  const given: Readonly<Record<string, readonly [words: readonly string[], input?: string]>> = {
    alerts: [['--threshold', '5']],
    erase: [['--client', '203.0.113.9']],
    explain: [['--path', '/login']],
    'hash-password': [[], 'correct horse'],
    'override add': [['203.0.113.7', 'deny']],
    'override remove': [['203.0.113.9']],
    preview: [['--name', 'api']],
    'rules import': [['-', '--keep'], '{"version":1,"rules":[]}'],
    'token create': [['--name', 'ci', '--role', 'viewer']],
    'token revoke': [['ci']],
    'counters reset': [['user:7']],
    report: [['summary']],
    usage: [['--unit', 'tokens']],
  }
  // Tail prints an object for each event.
  for (const name of COMMANDS.filter((each) => !['tail', 'demo'].includes(each))) {
    test(`${name} --json prints one line with one object, also where something failed`, async () => {
      const [words, input = ''] = given[name] ?? [[]]
      const env = { RATELIMIT_DATABASE_URL: database.url }
      const { status, stdout } = await ratelimit([...name.split(' '), ...words, '--json'], { env, input })
      assert.equal(status, name === 'override remove' ? 1 : 0)
      assert.match(stdout, /^\{.*\}\n$/)
      assert.equal(typeof JSON.parse(stdout), 'object')
    })
  }

  test('where no database is named, the first line on stderr says which one is used, and why', async () => {
    const path = join(process.cwd(), 'ratelimit.db')
    const line = `ratelimit: RATELIMIT_DATABASE_URL is not set in the environment or in .env: the database is ${path}`
    for (const name of COMMANDS.filter((each) => !['demo', 'hash-password'].includes(each))) {
      const [words, input = ''] = given[name] ?? [[]]
      const { stderr } = await ratelimit([...name.split(' '), ...words], { input })
      assert.equal(stderr.split('\n', 1)[0], line, name)
    }
    for (const env of [{ RATELIMIT_DATABASE_URL: database.url }, { RATELIMIT_MIDDLEWARE: '{"BACKEND":"memory"}' }]) {
      // With the counters in memory, a command uses the rules where there is a file of them.
      for (const suffix of ['', '-shm', '-wal']) await rm(path + suffix, { force: true })
      const { status, stderr } = await ratelimit(['explain', '--path', '/login'], { env })
      assert.deepEqual([status, stderr], [0, ''], JSON.stringify(env))
    }
  })

  test('reads an option in both spellings, the last one winning, and arguments between options', async () => {
    const env = { RATELIMIT_DATABASE_URL: database.url }
    const args = ['--dry-run', '--older-than-days', '1', '--json', '--older-than-days=9']
    assert.equal(JSON.parse((await ratelimit(['prune-events', ...args], { env })).stdout).older_than_days, 9)
    const { stderr } = await ratelimit(['override', 'remove', '--path', '/a', '--', '--all'], { env })
    assert.match(stderr, /^ratelimit override remove: there is no override of --all with the path "\/a"/)
  })

  test('settings come from .env in the working directory, and the environment wins', async () => {
    await writeFile('.env', 'RATELIMIT_ALERT_THRESHOLD=7\nRATELIMIT_DATABASE_URL=file:./from-dotenv.db\n')
    const fromFile = await ratelimit(['alerts', '--json'])
    assert.equal(JSON.parse(fromFile.stdout).threshold, 7)
    assert.match(fromFile.stderr, /^ratelimit: there is no database at .*from-dotenv\.db yet, creating an empty one\n$/)
    const fromEnvironment = await ratelimit(['alerts', '--json'], { env: { RATELIMIT_ALERT_THRESHOLD: '9' } })
    assert.equal(JSON.parse(fromEnvironment.stdout).threshold, 9)
    await rm('.env')
  })

  test('a .env may begin with a byte order mark, and one that cannot be read is status 1', async () => {
    await writeFile('.env', '\uFEFFRATELIMIT_ALERT_THRESHOLD=7\n')
    const env = { RATELIMIT_DATABASE_URL: database.url }
    assert.equal(JSON.parse((await ratelimit(['alerts', '--json'], { env })).stdout).threshold, 7)
    await rm('.env')
    await mkdir('.env')
    const { status, stdout, stderr } = await ratelimit(['alerts'])
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit alerts: \.env in the working directory cannot be read: EISDIR.*\n$/)
    await rm('.env', { recursive: true })
  })

  test('a setting that is wrong is one line that names it, and status 1', async () => {
    const { status, stdout, stderr } = await ratelimit(['cleanup'], { env: { RATELIMIT_RULE_CACHE_TIMEOUT: 'soon' } })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit cleanup: Setting "RATELIMIT_RULE_CACHE_TIMEOUT" is "soon": .*\n$/)
  })

  test('a database that cannot be reached is one line without the password, and status 1', async () => {
    const env = { RATELIMIT_DATABASE_URL: 'postgresql://somebody:secret@127.0.0.1:9/nowhere' }
    const { status, stdout, stderr } = await ratelimit(['reload-rules'], { env })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(stderr, /^ratelimit reload-rules: .*ECONNREFUSED.*\n$/)
    assert.doesNotMatch(stderr, /secret/)
  })

  test('DEBUG adds the stack trace of a failure', async () => {
    const env = { RATELIMIT_DATABASE_URL: `file:${folder}`, DEBUG: '1' }
    assert.match((await ratelimit(['cleanup'], { env })).stderr, /^ratelimit cleanup: .*\n.*\n {4}at /)
  })

  test('DEBUG shows no character that a terminal obeys', async () => {
    const path = join(folder, '\u001b[2J.db')
    await mkdir(path)
    const { stderr } = await ratelimit(['cleanup'], { env: { RATELIMIT_DATABASE_URL: `file:${path}`, DEBUG: '1' } })
    assert.match(stderr, /\n {4}at /)
    assert.ok(!stderr.includes('\u001b'), JSON.stringify(stderr))
    await rm(path, { recursive: true })
  })

  test('help and wrong usage leave no file behind', async () => {
    await ratelimit(['cleanup', '--help'])
    await ratelimit(['cleanup', '--stale-days', 'many'])
    assert.deepEqual(
      (await readdir(folder)).filter((name) => !name.startsWith('from-dotenv')),
      [],
    )
  })
})
