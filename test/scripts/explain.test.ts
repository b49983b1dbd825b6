import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../support/at-end.js'
import { startApp } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forAnyDatabase } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

const IP = '203.0.113.7'

forAnyDatabase((_provider, open) => {
  test('ratelimit explain lists the limits of a request in their order, with the standing of its client', async (t) => {
    const { explain, request } = await start(t)
    for (let times = 0; times < 2; times++) await request('/login', { method: 'POST', from: IP })
    for (let times = 0; times < 2; times++) {
      const { status, stdout, stderr } = await explain(['--method', 'post', '--path', '/login', '--ip', IP])
      assert.deepEqual([status, stderr], [0, ''])
      assert.deepEqual(stdout.trimEnd().split('\n'), [
        'POST /login',
        "Apart from limits in the app's own code: decided by login. The client has used 2, 3 left: the request is within the limit.",
        '',
        '     used  left    rate     limit  why',
        '                         override  No override in force is for this client and path.',
        '  *     2     3  5/366d     login  The rule matches the request.',
        '                  100/m   default  "login" decides before it.',
        '',
        'Mind:',
        "  Limits in the app's own code are known only to the app: explain.html of its dashboard lists them.",
      ])
    }
    const json = await explain(['--path', '/login', '--user', '7', '--json'])
    const { decided_by, limits, notes } = JSON.parse(json.stdout)
    assert.deepEqual([decided_by, limits.length, notes.length], ['override', 3, 1])
  })

  async function start(t: TestContext) {
    const database = await open(fakeClock(Date.now()))
    atEnd(t, database.close)
    const { app, request } = await startApp(t, {
      database,
      clock: fakeClock(Date.now()),
      plugin: { useDynamicRules: true },
    })
    const { client } = app.smartRateLimit
    await client.rateLimitRule.create({
      data: { name: 'login', pathPattern: '^/login', method: 'POST', rate: '5/366d' },
    })
    await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
    // Rules are read although this shell does not have the app's variable.
    const env = { RATELIMIT_DATABASE_URL: database.url }
    return {
      request,
      explain: (args: readonly string[]) => ratelimit(['explain', '--schema', database.schema, ...args], { env }),
    }
  }
})

test('what cannot be explained is wrong usage, and hostile input reaches no terminal', async () => {
  const env = { RATELIMIT_DATABASE_URL: 'file:./never-opened.db', RATELIMIT_MIDDLEWARE: '{"BACKEND":"memory"}' }
  const explain = (args: readonly string[]) => ratelimit(['explain', ...args], { env })
  for (const [args, message] of [
    [[], /required option '--path <path>'/],
    [['--path', 'login'], /Option "path" is "login"/],
    [['--path', '/', '--ip', 'x'], /Option "ip" is "x"/],
    [['--path', '/', '--method', 'look'], /Option "method" is "LOOK"/],
  ] as const) {
    const { status, stderr, stdout } = await explain(args)
    assert.deepEqual([status, stdout], [2, ''])
    assert.match(stderr, message)
  }
  const { status, stdout } = await explain(['--path', '/\u001b[31m\u202e', '--user', '\u001b'])
  assert.equal(status, 0)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: looking for them is the point
  assert.doesNotMatch(stdout, /[\u001b\u202e]/)
  assert.match(stdout, /^Rules and overrides are left out: RATELIMIT_USE_DYNAMIC_RULES is not true\./)
  assert.match(stdout, /Counters are in the memory of each server/)
})
