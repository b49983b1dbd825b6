import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { openTestDatabase, postgresqlMissing, type TestDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

for (const provider of ['sqlite', 'postgresql'] as const) {
  describe(`ratelimit override, on ${provider}`, { skip: provider === 'postgresql' && postgresqlMissing }, () => {
    let database: TestDatabase
    beforeEach(async () => {
      database = await openTestDatabase(provider)
    })
    afterEach(() => database.close())

    function override(...args: string[]) {
      const env = { RATELIMIT_DATABASE_URL: database.url }
      return ratelimit(['override', ...args, ...(provider === 'sqlite' ? [] : ['--schema', database.schema])], { env })
    }

    test('adds, lists, replaces and removes', async () => {
      const added = await override('add', '203.0.113.7', 'deny', '--note', 'scraper')
      assert.deepEqual([added.status, added.stdout, added.stderr], [0, 'Added: ip:203.0.113.7  deny  "scraper"\n', ''])
      await override('add', 'user:7', '20/m', '--path', '^/api/', '--algorithm', 'token_bucket')
      const replaced = await override('add', 'ip:203.0.113.7', 'allow', '--until', '2999-01-31T12:00:00Z')
      assert.equal(replaced.stdout, 'Replaced: ip:203.0.113.7  allow  until 2999-01-31T12:00:00.000Z\n')

      const listed = await override('list')
      assert.deepEqual(listed.stdout.split('\n'), [
        'ip:203.0.113.7  allow  until 2999-01-31T12:00:00.000Z',
        'user:7  20/m  token_bucket  path ^/api/',
        '2 override(s).',
        '',
      ])
      const [first] = JSON.parse((await override('list', '--json')).stdout).overrides
      const { created_at, updated_at, ...rest } = first
      assert.equal(typeof created_at, typeof updated_at)
      assert.deepEqual(rest, {
        id: 1,
        client: 'ip:203.0.113.7',
        effect: 'allow',
        algorithm: 'fixed_window',
        path_pattern: '',
        expires_at: '2999-01-31T12:00:00.000Z',
        note: '',
        state: 'active',
      })

      const elsewhere = await override('remove', 'user:7')
      assert.equal(elsewhere.status, 1)
      assert.equal(
        elsewhere.stderr,
        'ratelimit override remove: there is no override of user:7 for every path: give it with --path "^/api/"\n',
      )
      const removed = await override('remove', 'user:7', '--path', '^/api/')
      assert.deepEqual([removed.status, removed.stdout], [0, 'Removed 1 override(s) of user:7.\n'])
      assert.deepEqual(JSON.parse((await override('remove', '203.0.113.7', '--json')).stdout), { removed: 1 })
      assert.equal((await override('list')).stdout, '0 override(s).\n')
    })

    test('one client is one client, however it is spelled', async () => {
      await override('add', '2001:DB8:0::5', 'deny')
      await override('add', '::ffff:10.0.0.0/104', 'deny')
      await override('add', 'ip:2001:db8::5', 'allow')
      const rows = await database.client.rateLimitOverride.findMany({ orderBy: { id: 'asc' } })
      assert.deepEqual(
        rows.map(({ client, effect }) => [client, effect]),
        [
          ['ip:2001:db8::5', 'allow'],
          ['ip:10.0.0.0/8', 'deny'],
        ],
      )
      assert.equal((await override('remove', '2001:0db8::0005')).status, 0)
    })
  })
}

describe('ratelimit override', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await openTestDatabase('sqlite')
  })
  afterEach(() => database.close())

  function override(...args: string[]) {
    return ratelimit(['override', ...args], { env: { RATELIMIT_DATABASE_URL: database.url } })
  }

  test('a length of time counts from now', async () => {
    const before = Date.now()
    await override('add', '203.0.113.7', 'deny', '--for', '2h')
    const row = await database.client.rateLimitOverride.findFirstOrThrow()
    const leftMs = (row.expiresAt?.getTime() ?? 0) - before
    assert.ok(leftMs >= 7_200_000 && leftMs < 7_260_000, String(leftMs))
  })

  test('the history says which command changed what', async () => {
    await override('add', '203.0.113.7', 'deny')
    await override('remove', '203.0.113.7')
    const changes = await database.client.rateLimitChange.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      changes.map(({ action, actor }) => [action, actor.replace(/ \(.*\)$/, '')]),
      [
        ['create', 'ratelimit override add'],
        ['delete', 'ratelimit override remove'],
      ],
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

  test('hostile text in a note cannot command the terminal', async () => {
    await override('add', '203.0.113.7', 'deny', '--note', '\u001b[2Jgone\u202e')
    const { stdout } = await override('list')
    assert.ok(!/[\u001b\u202e]/.test(stdout))
    assert.match(stdout, /gone\\u202e/)
  })

  test('wrong usage is refused with status 2, and writes nothing', async () => {
    const wrong: [string[], RegExp][] = [
      [['add'], /^ratelimit override add: no client, no effect given/],
      [['add', '203.0.113.7', 'block'], /effect: "block" is no effect: give deny, allow, or a rate/],
      [['add', '203.0.113', 'deny'], /client: "203\.0\.113" is no client/],
      [
        ['add', '10.1.2.3/8', 'deny'],
        /client: 10\.1\.2\.3\/8 names more than its \/8: give 10\.0\.0\.0\/8 or 10\.1\.2\.3/,
      ],
      [['add', '203.0.113.7', 'deny', '--path', '(?!x)'], /pathPattern: uses \(\?!/],
      [['add', '203.0.113.7', 'deny', '--for', 'soon'], /--for is "soon": give 30m, 2h or 7d/],
      [['add', '203.0.113.7', 'deny', '--until', 'tomorrow'], /--until is "tomorrow": give a moment/],
      [['add', '203.0.113.7', 'deny', '--until', '2001-01-01'], /expiresAt: is past/],
      [['add', '203.0.113.7', 'deny', '--for', '2h', '--until', '2999-01-01'], /give either --for or --until/],
      [['add', '203.0.113.7', 'deny', '--algorithm', 'token_bucket'], /--algorithm goes with a rate/],
      [['add', '203.0.113.7', '5/m', '--algorithm', 'magic'], /algorithm: "magic" is no algorithm/],
      [['block', '203.0.113.7'], /unknown command "override block"/],
    ]
    for (const [args, message] of wrong) {
      const { status, stderr, stdout } = await override(...args)
      assert.equal(status, 2, args.join(' '))
      assert.match(stderr, message)
      assert.equal(stdout, '')
    }
    assert.equal(await database.client.rateLimitOverride.count(), 0)
  })

  test('removing what is not there fails with status 1', async () => {
    const { status, stderr } = await override('remove', '203.0.113.7')
    assert.equal(status, 1)
    assert.match(stderr, /there is no override of ip:203\.0\.113\.7 for every path: see override list/)
  })
})
