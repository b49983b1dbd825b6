import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { dashboardPlugin, staffAccounts } from '../../../src/dashboard.js'
import { InvalidSettingError } from '../../../src/index.js'
import { startApp } from '../../support/build-app.js'
import { forAnyDatabase, type TestDatabase } from '../../support/databases.js'
import { ACCOUNTS, cookieOf, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../../support/staff-app.js'

const TWELVE_HOURS_MS = 12 * 3_600_000

const WRONG: readonly [what: string, options: Parameters<typeof staffAccounts>[0], message: RegExp][] = [
  ['no account', { accounts: {}, sessionSecret: SECRET }, /"accounts" is empty/],
  [
    'a plain password',
    { accounts: { bob: 'hunter2' }, sessionSecret: SECRET },
    /"accounts" has no password hash for "bob": make one with "ratelimit hash-password"/,
  ],
  ['an account without a name', { accounts: { '': ACCOUNTS.alice }, sessionSecret: SECRET }, /give a name of 1 to 100/],
  [
    'a short secret',
    { accounts: ACCOUNTS, sessionSecret: 'x'.repeat(31) },
    /"sessionSecret" is missing or shorter than 32/,
  ],
  [
    'a cookie path that is none',
    { accounts: ACCOUNTS, sessionSecret: SECRET, cookiePath: '/a; Domain=evil.example' },
    /"cookiePath" is "\/a; Domain=evil\.example": give a path that starts with \//,
  ],
]
for (const [what, options, message] of WRONG) {
  test(`${what} is refused at start, and no password is quoted`, () => {
    assert.throws(
      () => staffAccounts(options),
      (error) => {
        assert.ok(error instanceof InvalidSettingError)
        assert.match(error.message, message)
        assert.doesNotMatch(error.message, /hunter2/)
        return true
      },
    )
  })
}

/** The sign-in of alice. */
const FORM = {
  method: 'POST',
  body: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
  headers: { 'content-type': 'application/x-www-form-urlencoded' },
}

/** Apps on one database, each with accounts of its own. */
async function startEach(t: TestContext, open: () => Promise<TestDatabase>, all: readonly Record<string, string>[]) {
  const database = await open()
  t.after(database.close)
  const start = (accounts: Record<string, string>) =>
    startApp(t, {
      database,
      routes: async (app) => {
        await app.register(dashboardPlugin, {
          prefix: '/ops',
          staff: staffAccounts({ accounts, sessionSecret: SECRET }),
        })
      },
    })
  return Promise.all(all.map(start))
}

forAnyDatabase((provider, open) => {
  test('the table knows a hash of the session only, and forgets it when it has expired', async (t) => {
    const { app, clock, signIn } = await startWithStaff(t, provider)
    const sessions = () => app.smartRateLimit.client.rateLimitStaffSession.findMany()

    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    const [session] = await sessions()
    assert.equal(session?.account, 'alice')
    assert.equal(session?.expiresAt.getTime(), clock.now() + TWELVE_HOURS_MS)
    assert.match(String(session?.idHash), /^[0-9a-f]{64}$/)
    assert.ok(!cookie.includes(String(session?.idHash)))

    clock.advance(TWELVE_HOURS_MS)
    await signIn(PASSWORD)
    const later = await sessions()
    assert.equal(later.length, 1)
    assert.notEqual(later[0]?.idHash, session?.idHash)
  })

  test('a session of a clock that was a month ahead is none', async (t) => {
    const { clock, request, signIn } = await startWithStaff(t, provider)
    const signInAhead = async (aheadMs: number) => {
      clock.advance(aheadMs)
      const headers = { cookie: cookieOf((await signIn(PASSWORD)).headers) }
      clock.advance(-aheadMs)
      return (await request(DASHBOARD, { headers })).status
    }
    assert.deepEqual([await signInAhead(60 * TWELVE_HOURS_MS), await signInAhead(TWELVE_HOURS_MS)], [403, 200])
  })

  test('a sign-in ends the session that the browser had', async (t) => {
    const { app, signIn } = await startWithStaff(t, provider)
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    await signIn(PASSWORD, { headers: { cookie } })

    assert.equal(await app.smartRateLimit.client.rateLimitStaffSession.count(), 1)
  })

  test('another password ends the sessions of its account', async (t) => {
    const other = { alice: ACCOUNTS.alice.replace(/.$/, 'w') }
    const [before, after] = await startEach(t, open, [ACCOUNTS, other])
    const headers = { cookie: cookieOf((await before?.request(`${DASHBOARD}sign-in`, FORM))?.headers ?? {}) }

    assert.equal((await before?.request(DASHBOARD, { headers }))?.status, 200)
    assert.equal((await after?.request(DASHBOARD, { headers }))?.status, 403)
  })

  test('of two session cookies either lets in, and signing out ends both', async (t) => {
    const { request, signIn } = await startWithStaff(t, provider)
    const open = async (cookie: string) => (await request(DASHBOARD, { headers: { cookie } })).status
    const [one, other] = [cookieOf((await signIn(PASSWORD)).headers), cookieOf((await signIn(PASSWORD)).headers)]
    const dead = cookieOf((await signIn(PASSWORD)).headers)
    await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie: dead } })

    assert.deepEqual([await open(`${dead}; ${one}`), await open(`a=b; ${one}; ${dead}`)], [200, 200])
    await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie: `${one}; ${dead}; ${other}` } })
    assert.deepEqual([await open(one), await open(other)], [403, 403])
  })

  test('of made-up session cookies none is looked at but the first ten that look like one', async (t) => {
    const { request, signIn } = await startWithStaff(t, provider)
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    const open = async (junk: string, times: number) => {
      const cookies = [...Array.from({ length: times }, () => `ratelimit_staff=${junk}`), cookie]
      return (await request(DASHBOARD, { headers: { cookie: cookies.join('; ') } })).status
    }
    const wellFormed = `${'x'.repeat(43)}.${'x'.repeat(16)}.${'x'.repeat(43)}`
    assert.deepEqual([await open('a.b', 700), await open(wellFormed.slice(1), 100)], [200, 200])
    assert.deepEqual([await open(wellFormed, 9), await open(wellFormed, 10)], [200, 403])
  })

  test('all processes know a session, until its account is taken away', async (t) => {
    const bob = { bob: ACCOUNTS.alice }
    const [first, second, third] = await startEach(t, open, [ACCOUNTS, ACCOUNTS, bob])
    const headers = { cookie: cookieOf((await first?.request(`${DASHBOARD}sign-in`, FORM))?.headers ?? {}) }

    assert.equal((await second?.request(DASHBOARD, { headers }))?.status, 200)
    assert.equal((await third?.request(DASHBOARD, { headers }))?.status, 403)
  })
})

test('a name from the prototype is no account', async (t) => {
  const { signIn } = await startWithStaff(t, 'sqlite')
  for (const account of ['constructor', '__proto__', 'toString', '']) {
    assert.equal((await signIn(PASSWORD, { account })).status, 403, account)
  }
})

test('a form that is too large, or of another type, is refused', async (t) => {
  const { signIn, request } = await startWithStaff(t, 'sqlite')
  assert.equal((await signIn('x'.repeat(20_000))).status, 413)

  const json = { method: 'POST', body: '{"account":"alice"}', headers: { 'content-type': 'application/json' } }
  assert.equal((await request(`${DASHBOARD}sign-in`, json)).status, 415)
  assert.equal((await request(`${DASHBOARD}sign-in`, { method: 'POST' })).status, 403)
})

test('over https the cookie is Secure', async (t) => {
  const { signIn } = await startWithStaff(t, 'sqlite')
  const { headers } = await signIn(PASSWORD, { headers: { 'x-forwarded-proto': 'https' }, from: '203.0.113.7' })
  assert.match(String(headers['set-cookie']), /; Secure$/)
})

test('behind a proxy that rewrites paths the session is for the path that browsers see', async (t) => {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET, cookiePath: '/tools/ops' })
  const { signIn, request } = await startWithStaff(t, 'sqlite', { staff })
  const { headers } = await signIn(PASSWORD)
  assert.match(String(headers['set-cookie']), /; Path=\/tools\/ops;/)

  const signedOut = await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie: cookieOf(headers) } })
  assert.match(String(signedOut.headers['set-cookie']), /Max-Age=0; Path=\/tools\/ops;/)
})

const ORIGINS: readonly [headers: Record<string, string>, status: number][] = [
  [{ 'sec-fetch-site': 'same-origin', origin: 'null' }, 303],
  [{ 'sec-fetch-site': 'none' }, 303],
  [{ 'sec-fetch-site': 'same-site' }, 403],
  [{ 'sec-fetch-site': 'cross-site' }, 403],
  [{ 'sec-fetch-site': 'same-origin', host: 'limits.example', origin: 'https://limits.example' }, 303],
  [{ host: 'limits.example', origin: 'http://limits.example' }, 303],
  [{ host: 'limits.example:80', origin: 'http://limits.example' }, 303],
  [{ host: 'limits.example', origin: 'https://limits.example' }, 403],
  [{ host: 'limits.example', origin: 'https://limits.example', 'x-forwarded-proto': 'https' }, 303],
  [{ host: 'limits.example:443', origin: 'https://limits.example', 'x-forwarded-proto': 'https' }, 303],
  [{ host: 'limits.example', origin: 'http://limits.example', 'x-forwarded-proto': 'https' }, 403],
  [{ host: 'limits.example', origin: 'http://limits.example:8080' }, 403],
  [{ host: 'limits.example', origin: 'http://evil.example' }, 403],
  [{ origin: 'null' }, 403],
  [{ host: '', origin: 'null' }, 403],
]
test('a sign-in is accepted from this site only, by Sec-Fetch-Site, or else by Origin', async (t) => {
  const { signIn } = await startWithStaff(t, 'sqlite')
  for (const [headers, status] of ORIGINS) {
    assert.equal((await signIn(PASSWORD, { headers })).status, status, JSON.stringify(headers))
  }
})
