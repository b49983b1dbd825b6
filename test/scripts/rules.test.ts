import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { sqlitePath } from '../../src/database/database-url.js'
import { openTestDatabase, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

const API = { name: 'api', pathPattern: '^/api/', rate: '20/m' }
const LOGIN = { name: 'login', pathPattern: '^/login$', rate: '5/m', method: 'POST' }
const DENIED = { client: 'ip:203.0.113.7', effect: 'deny', expiresAt: '2099-01-01T00:00:00Z' }

describe('ratelimit rules', () => {
  let database: TestDatabase
  let folder = ''
  before(async () => {
    database = await openTestDatabase('sqlite')
    folder = dirname(sqlitePath(database.url))
  })
  after(() => database.close())
  beforeEach(async () => {
    await database.client.rateLimitRule.deleteMany()
    await database.client.rateLimitOverride.deleteMany()
  })

  function rules(args: readonly string[], input = '') {
    return ratelimit(['rules', ...args], { env: { RATELIMIT_DATABASE_URL: database.url }, input })
  }

  const fileOf = (document: object) => JSON.stringify({ version: 1, ...document })
  const names = async () => (await database.client.rateLimitRule.findMany()).map(({ name }) => name).sort()

  test('export prints a file that import takes, and finds unchanged', async () => {
    await database.client.rateLimitRule.createMany({ data: [API, LOGIN] })
    const exported = await rules(['export'])
    assert.deepEqual([exported.status, exported.stderr], [0, ''])
    assert.deepEqual(JSON.parse((await rules(['export', '--json'])).stdout), JSON.parse(exported.stdout))
    assert.deepEqual(await rules(['import', '-'], exported.stdout), {
      status: 0,
      stdout: 'Imported: 0 created, 0 updated, 0 deleted, 2 unchanged.\n',
      stderr: '',
    })
  })

  test('import prints the difference as a diff, and what was done', async () => {
    const old = { ...API, name: 'old rule', condition: "user.plan == 'free'" }
    await database.client.rateLimitRule.createMany({ data: [{ ...LOGIN, rate: '10/m', description: '' }, old] })
    await database.client.rateLimitOverride.create({ data: { client: 'user:7', effect: '5/m' } })
    const document = fileOf({
      rules: [API, { ...LOGIN, description: 'a "secret"' }],
      overrides: [DENIED, { client: 'user:7', effect: 'allow' }],
    })
    const file = join(folder, 'rules.json')
    // As some editors save it.
    await writeFile(file, `\uFEFF${document}`, 'utf16le')
    const lines = [
      '+ rule api  20/m  ^/api/',
      '~ rule login: description "" → "a \\"secret\\"", rate 10/m → 5/m',
      '- rule "old rule"  20/m  ^/api/  if "user.plan == \'free\'"',
      '+ override ip:203.0.113.7  deny  until 2099-01-01T00:00:00.000Z',
      '~ override user:7: effect 5/m → allow',
    ]
    const dry = await rules(['import', '--dry-run', file])
    assert.deepEqual(dry.stdout.split('\n'), [
      ...lines,
      'Would be imported: 2 created, 2 updated, 1 deleted, 0 unchanged.',
      'Nothing was written (dry run).',
      '',
    ])
    assert.deepEqual(await names(), ['login', 'old rule'])
    const done = await rules(['import', file])
    assert.deepEqual(done.stdout.split('\n'), [...lines, 'Imported: 2 created, 2 updated, 1 deleted, 0 unchanged.', ''])
    assert.deepEqual([done.status, done.stderr, await names()], [0, '', ['api', 'login']])
    const changes = await database.client.rateLimitChange.findMany({ where: { name: 'api', action: 'create' } })
    assert.match(changes.at(-1)?.actor ?? '', /^ratelimit rules import\b/)
  })

  test('import says what a rule costs and when it is in force', async () => {
    const [startsAt, endsAt] = ['2099-01-01T00:00:00.000Z', '2099-01-02T00:00:00.000Z']
    const created = await rules(
      ['import', '-'],
      fileOf({
        rules: [{ ...API, counts: '4xx, 5xx', cost: 5, banAfter: 3, banFor: '2h', startsAt, endsAt, group: 'team' }],
      }),
    )
    assert.match(
      created.stdout,
      /^\+ rule api {2}group team {2}20\/m {2}counts 4xx,5xx {2}cost 5 {2}bans for 2h after 3 {2}\^\/api\/ {2}from 2099-01-01T.* {2}until 2099-01-02T/,
    )
    const updated = await rules(['import', '-'], fileOf({ rules: [{ ...API, refusalMessage: 'Wait {seconds} s' }] }))
    assert.equal(
      updated.stdout.split('\n')[0],
      `~ rule api: counts 4xx,5xx → requests, cost 5 → 1, refusalMessage "" → "Wait {seconds} s", banAfter 3 → 0, banFor 2h → "", startsAt ${startsAt} → always, endsAt ${endsAt} → never, group team → ""`,
    )
    const wrong = await rules(
      ['import', '-'],
      fileOf({
        rules: [
          { ...API, cost: 21 },
          { ...LOGIN, name: 'route' },
        ],
      }),
    )
    assert.equal(wrong.status, 1)
    assert.match(wrong.stderr, /rules\[0\]\.cost: is 21, more than the rate ever allows: give at most 20/)
    assert.match(wrong.stderr, /rules\[1\]\.name: "route" is reserved/)
  })

  test('with --keep nothing is deleted, and --json prints the difference as JSON', async () => {
    await database.client.rateLimitRule.create({ data: LOGIN })
    const { status, stdout } = await rules(['import', '-', '--keep', '--json'], fileOf({ rules: [API] }))
    assert.equal(status, 0)
    const { rules: difference, applied } = JSON.parse(stdout)
    assert.deepEqual([applied, difference.created[0].name, difference.deleted], [true, 'api', []])
    assert.deepEqual(await names(), ['api', 'login'])
  })

  test('every wrong place is a line on stderr, status 1, and nothing is written', async () => {
    const wrong = fileOf({ rules: [API, { ...LOGIN, rate: 'often', color: 'red' }] })
    const { status, stdout, stderr } = await rules(['import', '-'], wrong)
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(
      stderr,
      /^ratelimit rules import: rules\[1\]\.rate: .*often.*\nratelimit rules import: rules\[1\]\.color: does not exist.*\nratelimit rules import: nothing was imported: 2 places of the file are wrong\n$/,
    )
    assert.deepEqual(await names(), [])
    const json = await rules(['import', '-', '--json'], wrong)
    assert.deepEqual(Object.keys(JSON.parse(json.stdout).errors), ['rules[1].rate', 'rules[1].color'])
  })

  test('what strangers wrote cannot command the terminal', async () => {
    const hostile = fileOf({ rules: [{ ...API, pathPattern: '\u001b]2J', description: '\u202e\r\n+ rule evil' }] })
    const imported = await rules(['import', '-'], hostile)
    assert.equal(imported.stdout.split('\n')[0], '+ rule api  20/m  \\u001b]2J')
    const exported = await rules(['export'])
    assert.doesNotMatch(exported.stdout.replaceAll('\n', ''), /[\p{Cc}\p{Cf}]/u)
    assert.equal(JSON.parse(exported.stdout).rules[0].description, '\u202e\r\n+ rule evil')
  })

  for (const [args, input, complaint] of [
    [['import', '/nowhere/missing.json'], '', /^ratelimit rules import: ENOENT: .*missing\.json.*\n$/],
    [['import', '-'], '{"version": 1, ', /^ratelimit rules import: standard input is not valid JSON: .*\n$/],
    [['import', '-'], '', /^ratelimit rules import: standard input is not valid JSON: .*\n$/],
  ] as const) {
    test(`${args.join(' ')} fails with ${JSON.stringify(input)}`, async () => {
      const { status, stdout, stderr } = await rules(args, input)
      assert.deepEqual([status, stdout], [1, ''])
      assert.match(stderr, complaint)
    })
  }

  test('--help lists the two, and so does wrong usage without one of them', async () => {
    const help = await rules(['--help'])
    assert.match(help.stdout, /^Commands:\n {2}export .*\n {2}import .*\n/m)
    assert.deepEqual(await rules([]), { status: 2, stdout: '', stderr: help.stdout })
  })
})
