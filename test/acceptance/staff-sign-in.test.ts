/** Staff sign in; everybody else stays outside. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { staffAccounts } from '../../src/dashboard.js'
import { HOUR_MS, MINUTE_MS } from '../../src/ground/time/clock.js'
import { MemoryStore, type Store } from '../../src/index.js'
import { unescapeHtml } from '../support/client-forms.js'
import { forAnyDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { ACCOUNTS, cookieOf, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../support/staff-app.js'
import { startWebhookReceiver } from '../support/webhook-receiver.js'

const BAD = '203.0.113.66'

forAnyDatabase((provider) => {
  test('a stranger is shown the sign-in with 403; with the right password the dashboard, which lists the offenders', async (t) => {
    const { request, signIn, statuses } = await startWithStaff(t, provider)
    await statuses(5, '/', { from: BAD })
    const refused = await request(DASHBOARD)
    assert.equal(refused.status, 403)
    assert.match(refused.text, /<form[^>]+method="post"/i)
    assert.doesNotMatch(refused.text, /203\.0\.113/)

    const { status, headers } = await signIn(PASSWORD)
    assert.equal(status, 303)
    const page = await request(DASHBOARD, { headers: { cookie: cookieOf(headers) } })
    assert.equal(page.status, 200)
    assert.match(String(page.headers['content-type']), /^text\/html/)
    assert.match(page.text, /ip:203\.0\.113\.66/)
  })

  test('the link of an alert leads a stranger to its incident by the sign-in, and a link that was changed to nowhere else', async (t) => {
    const receiver = await startWebhookReceiver(t)
    const { app, request, signIn, statuses } = await startWithStaff(t, provider, undefined, {
      alertWebhook: receiver.url,
      publicUrl: `https://example.com${DASHBOARD}`,
    })
    await statuses(62, '/', { from: BAD })
    await app.smartRateLimit.events.flush()
    await app.smartRateLimit.analytics.sendIncidentAlerts()
    const { incident } = JSON.parse(receiver.posts[0]?.body ?? '{}')
    const { pathname, search } = new URL(incident.url)
    /** Opens an address as a stranger, signs in there, and returns where that leads. */
    const signInAt = async (address: string) => {
      const refused = await request(address)
      assert.equal(refused.status, 403)
      const to = unescapeHtml(/name="to" value="([^"]*)"/.exec(refused.text)?.[1] ?? '')
      const { status, headers } = await signIn(PASSWORD, { to })
      assert.equal(status, 303)
      const { origin, pathname, search } = new URL(String(headers.location), `https://example.com${DASHBOARD}sign-in`)
      assert.equal(origin, 'https://example.com')
      return { address: pathname + search, cookie: cookieOf(headers) }
    }
    const { address, cookie } = await signInAt(pathname + search)
    assert.equal(address, pathname + search)
    const leading = await request(address, { headers: { cookie } })
    assert.equal(leading.status, 302)
    const shown = new URL(String(leading.headers.location), `https://example.com${address}`)
    assert.equal(shown.hash, `#incident-${incident.id}`)
    const page = await request(shown.pathname + shown.search, { headers: { cookie } })
    assert.match(page.text, new RegExp(`<li id="incident-${incident.id}".*?203\\.0\\.113\\.66`, 's'))

    for (const id of ['', '//evil.example', '"><b>', 'x#y', '\r\nset-cookie: x=1']) {
      const changed = await signInAt(`${DASHBOARD}incident.html?${new URLSearchParams({ id, since: '2h' })}`)
      const { headers } = await request(changed.address, { headers: { cookie: changed.cookie } })
      assert.equal(headers.location, './?since=2h', id)
    }
  })

  test('a wrong password and an unknown name get the same 403 and no session', async (t) => {
    const { signIn } = await startWithStaff(t, provider)
    const [wrong, unknown] = [await signIn('wrong'), await signIn(PASSWORD, { account: 'bob' })]

    for (const { status, headers } of [wrong, unknown]) {
      assert.equal(status, 403)
      assert.equal(headers['set-cookie'], undefined)
    }
    assert.equal(wrong.text.replaceAll('alice', 'X'), unknown.text.replaceAll('bob', 'X'))
  })

  test('after 10 attempts to sign in even the right password is refused, from that address and for 5 minutes', async (t) => {
    const { signIn, clock } = await startWithStaff(t, provider)
    for (let attempt = 1; attempt <= 10; attempt++) assert.equal((await signIn('wrong', { from: BAD })).status, 403)

    const refused = await signIn(PASSWORD, { from: BAD })
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers['retry-after']) >= 1)
    assert.equal((await signIn(PASSWORD, { from: '203.0.113.8' })).status, 303)
    clock.advance(5 * MINUTE_MS)
    assert.equal((await signIn(PASSWORD, { from: BAD })).status, 303)
  })

  test('made-up keys do not push the attempts to sign in out of a full store in memory', async (t) => {
    const middleware = { backend: new MemoryStore({ maxKeys: 10 }), key: 'header:X-Api-Key' }
    const { signIn, statuses } = await startWithStaff(t, provider, undefined, { middleware })
    for (let attempt = 1; attempt <= 10; attempt++) {
      assert.equal((await signIn('wrong', { from: BAD })).status, 403)
      for (let key = 1; key <= 11; key++) await statuses(1, '/', { headers: { 'x-api-key': `${attempt}-${key}` } })
    }
    assert.equal((await signIn(PASSWORD, { from: BAD })).status, 429)
  })

  test('strangers at the same address, as behind a proxy that is not trusted, do not lock out a browser that signed in before', async (t) => {
    const { signIn, request } = await startWithStaff(t, provider)
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    const browser = cookie.split('; ').filter((each) => each.startsWith('ratelimit_staff_browser='))
    assert.equal(browser.length, 1)
    await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie } })
    for (let attempt = 2; attempt <= 10; attempt++) assert.equal((await signIn('wrong')).status, 403)
    assert.equal((await signIn(PASSWORD)).status, 429)
    const statuses = Array.from({ length: 61 }, async () => (await request(DASHBOARD)).status)
    assert.ok((await Promise.all(statuses)).includes(429))

    const refused = await request(DASHBOARD)
    assert.equal(refused.status, 429)
    assert.match(refused.text, /<form[^>]+method="post"/i)
    assert.equal((await signIn(PASSWORD, { headers: { cookie: browser.join() } })).status, 303)
  })

  test('a known browser has 10 attempts of its own, for its account alone, and none with a forged proof', async (t) => {
    const staff = staffAccounts({ accounts: { ...ACCOUNTS, bob: ACCOUNTS.alice }, sessionSecret: SECRET })
    const { signIn } = await startWithStaff(t, provider, { staff })
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    for (let attempt = 2; attempt <= 10; attempt++) assert.equal((await signIn('wrong')).status, 403)

    const [, proof = ''] = /ratelimit_staff_browser=[\w-]+\.([\w-]+)/.exec(cookie) ?? []
    for (const forged of [`${'x'.repeat(22)}.${proof}`, `${'x'.repeat(22)}.${'x'.repeat(43)}`]) {
      const headers = { cookie: `ratelimit_staff_browser=${forged}` }
      assert.equal((await signIn(PASSWORD, { headers })).status, 429)
    }
    assert.equal((await signIn(PASSWORD, { account: 'bob', headers: { cookie } })).status, 429)
    for (let attempt = 1; attempt <= 10; attempt++) {
      assert.equal((await signIn('wrong', { headers: { cookie } })).status, 403)
    }
    assert.equal((await signIn(PASSWORD, { headers: { cookie } })).status, 429)
  })

  test('from however many addresses, 100 attempts at an account in 5 minutes are enough, but for a known browser', async (t) => {
    const staff = staffAccounts({ accounts: { ...ACCOUNTS, bob: ACCOUNTS.alice }, sessionSecret: SECRET })
    const { signIn, clock } = await startWithStaff(t, provider, { staff })
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    clock.advance(5 * MINUTE_MS)
    for (let attempt = 0; attempt < 100; attempt++) {
      const from = `198.51.100.${Math.floor(attempt / 10)}`
      assert.equal((await signIn('wrong', { from })).status, 403)
    }
    assert.equal((await signIn(PASSWORD, { from: BAD })).status, 429)
    assert.equal((await signIn(PASSWORD, { account: 'bob', from: BAD })).status, 303)
    assert.equal((await signIn(PASSWORD, { from: BAD, headers: { cookie } })).status, 303)
    clock.advance(5 * MINUTE_MS)
    assert.equal((await signIn(PASSWORD, { from: BAD })).status, 303)
  })

  test('passwords cannot be guessed without limit while the store fails, nor staff kept out, whatever onStoreError says', async (t) => {
    const backend: Store = {
      concurrency: 1,
      check: () => Promise.reject(new Error('no store')),
      reset: () => undefined,
      close: () => undefined,
    }
    for (const onStoreError of ['allow', 'deny'] as const) {
      const { signIn } = await startWithStaff(t, provider, undefined, { onStoreError, middleware: { backend } })
      assert.equal((await signIn(PASSWORD, { from: BAD })).status, 303)
      for (let attempt = 2; attempt <= 10; attempt++) assert.equal((await signIn('wrong', { from: BAD })).status, 403)
      assert.equal((await signIn('wrong', { from: BAD })).status, 429)
    }
  })

  test('forms that other sites send are refused, at most 60 a minute, and use up no attempt to sign in', async (t) => {
    const { signIn } = await startWithStaff(t, provider)
    const headers = { 'sec-fetch-site': 'cross-site' }
    for (let attempt = 1; attempt <= 60; attempt++) {
      assert.equal((await signIn(PASSWORD, { from: BAD, headers })).status, 403)
    }
    assert.equal((await signIn(PASSWORD, { from: BAD, headers })).status, 429)
    assert.equal((await signIn(PASSWORD, { from: BAD })).status, 303)
  })

  test('the session cookie is HttpOnly and SameSite=Strict, Secure in production, and a sign-in makes a new one', async (t) => {
    const { signIn, request } = await startWithStaff(t, provider)
    const first = await signIn(PASSWORD)
    const [cookie = ''] = first.headers['set-cookie'] ?? []
    assert.match(cookie, /HttpOnly/i)
    assert.match(cookie, /SameSite=Strict/i)
    assert.match(cookie, /Path=\/ops(?:;|$)/)

    const second = await signIn(PASSWORD, { headers: { cookie: cookieOf(first.headers) } })
    assert.notEqual(cookieOf(second.headers), cookieOf(first.headers))
    assert.equal((await request(DASHBOARD, { headers: { cookie: cookieOf(first.headers) } })).status, 403)
    assert.equal((await request(DASHBOARD, { headers: { cookie: cookieOf(second.headers) } })).status, 200)

    const before = process.env.NODE_ENV
    process.env.NODE_ENV = 'production'
    t.after(() => {
      if (before === undefined) delete process.env.NODE_ENV
      else process.env.NODE_ENV = before
    })
    assert.match(String((await signIn(PASSWORD)).headers['set-cookie']), /; Secure/i)
  })

  test('a session ends with the sign-out, with its time, and never begins with a made-up or altered cookie', async (t) => {
    const { signIn, request, clock } = await startWithStaff(t, provider)
    const open = async (cookie: string) => (await request(DASHBOARD, { headers: { cookie } })).status
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    const [name = '', value = ''] = cookie.split(/[=;]/)

    assert.equal(await open(cookie), 200)
    for (const forged of [`${name}=`, `${name}=admin`, `${name}=x${value}`, `${name}=${value.slice(0, -2)}xx`, 'a=b']) {
      assert.equal(await open(forged), 403, forged)
    }
    const out = await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie } })
    assert.equal(out.status, 303)
    assert.equal(await open(cookie), 403)

    const other = cookieOf((await signIn(PASSWORD)).headers)
    clock.advance(13 * HOUR_MS)
    assert.equal(await open(other), 403)
  })

  test('sign-in and sign-out sent by another site are refused, and sign-out is no link', async (t) => {
    const { signIn, request } = await startWithStaff(t, provider)
    const cookie = cookieOf((await signIn(PASSWORD)).headers)

    assert.equal((await signIn(PASSWORD, { headers: { 'sec-fetch-site': 'cross-site' } })).status, 403)
    assert.equal((await signIn(PASSWORD, { headers: { origin: 'http://evil.example' } })).status, 403)
    await request(`${DASHBOARD}sign-out`, { headers: { cookie } })
    const headers = { cookie, origin: 'http://evil.example' }
    assert.equal((await request(`${DASHBOARD}sign-out`, { method: 'POST', headers })).status, 403)
    assert.equal((await request(DASHBOARD, { headers: { cookie } })).status, 200)
  })
})

test(
  'however many attempts arrive at once, few passwords are verified, and a known browser waits for none of them',
  long(),
  async (t) => {
    // Slow enough to verify for the others to arrive meanwhile.
    const slow = ACCOUNTS.alice.replace('ln=12,r=1,p=1', 'ln=14,r=8,p=3')
    const staff = staffAccounts({ accounts: { ...ACCOUNTS, bob: slow }, sessionSecret: SECRET })
    const { signIn } = await startWithStaff(t, 'sqlite', { staff })
    const cookie = cookieOf((await signIn(PASSWORD)).headers)
    const answered: string[] = []
    const strangers = Array.from({ length: 40 }, async (_, place) => {
      const answer = await signIn('wrong', { account: 'bob', from: `198.51.100.${place}` })
      answered.push(`stranger ${answer.status}`)
      return answer
    })
    await Promise.any(strangers)
    assert.equal((await signIn(PASSWORD, { headers: { cookie } })).status, 303)
    answered.push('alice')
    const answers = await Promise.all(strangers)
    const refused = answers.filter(({ status }) => status === 429)
    assert.ok(refused.length >= 20, `${refused.length} refused`)
    assert.equal(refused[0]?.headers['retry-after'], '1')
    assert.ok(answered.indexOf('alice') < answered.lastIndexOf('stranger 403'))
  },
)
