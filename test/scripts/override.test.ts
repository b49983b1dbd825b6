import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { openTestDatabase, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit override, on PostgreSQL', { skip: postgresqlMissing }, () => {
  test('adds, lists and removes', async (t) => {
    const database = await openTestDatabase('postgresql')
    t.after(() => database.close())
    const override = (...args: string[]) =>
      ratelimit(['override', ...args, '--schema', database.schema], { env: { RATELIMIT_DATABASE_URL: database.url } })

    const added = await override('add', '203.0.113.7', 'deny', '--until', '2999-01-31T12:00:00Z')
    assert.equal(added.stdout, 'Added: ip:203.0.113.7  deny  until 2999-01-31T12:00:00.000Z\n')
    const { overrides } = JSON.parse((await override('list', '--json')).stdout)
    assert.deepEqual(
      overrides.map(({ id, expires_at }: Record<string, unknown>) => [id, expires_at]),
      [[1, '2999-01-31T12:00:00.000Z']],
    )
    assert.equal((await override('remove', '203.0.113.7')).stdout, 'Removed 1 override of ip:203.0.113.7.\n')
  })
})

describe('ratelimit override', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await openTestDatabase('sqlite')
  })
  afterEach(() => database.close())

  function override(...args: string[]) {
    return ratelimit(['override', ...args], { env: { RATELIMIT_DATABASE_URL: database.url } })
  }

  test('adds a client for a time, replaces it however it is spelled, lists it and removes it', async () => {
    const before = Date.now()
    const added = await override('add', '2001:DB8:0::5', 'deny', '--for', '2h', '--note', '\u001b[2Jgone\u202e')
    assert.deepEqual([added.status, added.stderr], [0, ''])
    // A note cannot command the terminal.
    assert.match(added.stdout, /^Added: ip:2001:db8::5 {2}deny {2}until .*Z {2}"\\u001b\[2Jgone\\u202e"\n$/)
    const row = await database.client.rateLimitOverride.findFirstOrThrow()
    const leftMs = (row.expiresAt?.getTime() ?? 0) - before
    assert.ok(leftMs >= 7_200_000 && leftMs < 7_260_000, String(leftMs))

    const replaced = await override('add', 'ip:2001:db8::5', 'allow')
    assert.equal(replaced.stdout, 'Replaced: ip:2001:db8::5  allow\n')
    const other = await override('add', 'user:7', '20/m', '--path', '^/api/', '--algorithm', 'token_bucket', '--json')
    const { id, created_at, updated_at, ...rest } = JSON.parse(other.stdout).override
    assert.deepEqual([typeof id, typeof created_at, typeof updated_at], ['number', 'string', 'string'])
    assert.deepEqual(rest, {
      client: 'user:7',
      effect: '20/m',
      algorithm: 'token_bucket',
      path_pattern: '^/api/',
      expires_at: null,
      note: '',
      state: 'active',
    })
    assert.deepEqual((await override('list')).stdout.split('\n'), [
      'ip:2001:db8::5  allow',
      'user:7  20/m  token_bucket  path ^/api/',
      '2 overrides.',
      '',
    ])

    const elsewhere = await override('remove', 'user:7')
    assert.equal(elsewhere.status, 1)
    assert.equal(
      elsewhere.stderr,
      'ratelimit override remove: there is no override of user:7 for every path: give it with --path "^/api/"\n',
    )
    const removed = await override('remove', 'user:7', '--path', '^/api/')
    assert.deepEqual([removed.status, removed.stdout], [0, 'Removed 1 override of user:7.\n'])
    const changes = await database.client.rateLimitChange.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      changes.map(({ action, actor }) => `${action}: ${actor.replace(/ \(.*\)$/, '')}`),
      ['create', 'update', 'create']
        .map((action) => `${action}: ratelimit override add`)
        .concat('delete: ratelimit override remove'),
    )
  })

  test('what has expired is listed with --all only; what raw SQL made wrong is marked, and can be removed', async () => {
    const table = database.database.dialect.table('rate_limit_override')
    await database.database.execute(
      `INSERT INTO ${table} (client, effect, expires_at) VALUES ('ip:10.1.2.3/8', 'deny', NULL), ('user:7', 'deny', 1000)`,
    )
    assert.match(
      (await override('list')).stdout,
      /^ip:10\.1\.2\.3\/8 {2}deny {2}\(Invalid override: client: .*\)\n1 over/,
    )
    assert.match(
      (await override('list', '--all')).stdout,
      /\nuser:7 {2}deny {2}until 1970-01-01T00:00:01.000Z {2}\(exp/,
    )
    assert.equal((await override('remove', '10.1.2.3/8')).status, 0)
    assert.equal(await database.client.rateLimitOverride.count(), 1)
  })

  test('an expiry that is no moment hides no override, and can be removed', async () => {
    const table = database.database.dialect.table('rate_limit_override')
    await database.database.execute(
      `INSERT INTO ${table} (client, effect, expires_at) VALUES ('ip:10.0.0.1', 'deny', 'soon'),
         ('ip:10.0.0.2', 'deny', 9e18), ('ip:10.0.0.3', 'deny', NULL)`,
    )
    const invalid = 'deny  (Invalid override: expiresAt: is not a valid moment)'
    assert.equal(
      (await override('list')).stdout,
      `ip:10.0.0.1  ${invalid}\nip:10.0.0.2  ${invalid}\nip:10.0.0.3  deny\n3 overrides.\n`,
    )
    const { overrides } = JSON.parse((await override('list', '--json')).stdout)
    assert.deepEqual(
      overrides.map(({ state, expires_at }: Record<string, unknown>) => [state, expires_at]),
      [
        ['not valid', null],
        ['not valid', null],
        ['active', null],
      ],
    )
    for (const client of ['10.0.0.1', '10.0.0.2']) assert.equal((await override('remove', client)).status, 0)
    assert.equal(await database.client.rateLimitOverride.count(), 1)
  })

  test('wrong usage is status 2', async () => {
    const { status, stderr, stdout } = await override('block', '203.0.113.7')
    assert.deepEqual([status, stdout], [2, ''])
    assert.match(stderr, /^ratelimit override: unknown command 'block' /)
  })

  test('errors of an override are reported before anything is opened', async () => {
    const wrong: [string[], RegExp][] = [
      [[], /missing required argument 'client'/],
      [['203.0.113.7'], /missing required argument 'effect'/],
      [['203.0.113.7', 'slow'], /effect: "slow" is not a valid effect: give deny, allow, or a rate/],
      [['203.0.113', 'deny'], /client: "203\.0\.113" is not a valid client/],
      [['10.1.2.3/8', 'deny'], /client: 10\.1\.2\.3\/8 names more than its \/8: give 10\.0\.0\.0\/8 or 10\.1\.2\.3/],
      [['203.0.113.7', 'deny', '--path', '(?!x)'], /pathPattern: uses \(\?!/],
      [['203.0.113.7', 'deny', '--for', 'soon'], /--for is "soon": give 30m, 2h or 7d/],
      [['203.0.113.7', 'deny', '--until', 'tomorrow'], /--until is "tomorrow": give a moment/],
      [['203.0.113.7', 'deny', '--until', '2999-02-31'], /--until is "2999-02-31": give a moment/],
      [['203.0.113.7', 'deny', '--until', '2001-01-01'], /expiresAt: is in the past/],
      [
        ['203.0.113.7', 'deny', '--for', '2h', '--until', '2999-01-01'],
        /option '--for <time>' cannot be used with option '--until <moment>'/,
      ],
      [['203.0.113.7', 'deny', '--algorithm', 'token_bucket'], /--algorithm goes with a rate/],
      [['203.0.113.7', '5/m', '--algorithm', 'magic'], /algorithm: "magic" is not a valid algorithm/],
    ]
    const env = { RATELIMIT_DATABASE_URL: 'file:/nowhere/at/all.db' }
    for (const [args, message] of wrong) {
      const { status, stdout, stderr } = await ratelimit(['override', 'add', ...args], { env })
      assert.deepEqual([status, stdout], [2, ''], args.join(' '))
      assert.match(stderr, message)
    }
  })
})
