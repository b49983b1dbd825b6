/** Operators block, raise, allow and end from the page of a client; other senders change nothing. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type DashboardOptions, staffAccounts } from '../../src/dashboard.js'
import { HOUR_MS } from '../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../src/index.js'
import {
  act,
  keepCookies,
  noticeOf,
  type OpenedPage,
  openClient,
  SAME_ORIGIN,
  withoutTimes,
} from '../support/client-forms.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { long } from '../support/long.js'
import { ACCOUNTS, cookieOf, DASHBOARD, PASSWORD, SECRET, startWithStaff } from '../support/staff-app.js'

const BAD = '203.0.113.66'
const CLIENT = `ip:${BAD}`
const ALICE: DashboardOptions = { isStaff: () => ({ actor: 'alice', role: 'operator' }) }
const BOB_HEADER = 'x-bob'
const ALICE_OR_BOB: DashboardOptions = {
  isStaff: ({ headers }) => ({ actor: BOB_HEADER in headers ? 'bob' : 'alice', role: 'operator' }),
}
const CHANGED = /^Nothing was changed: another change was made/

async function start(t: TestContext, provider: Provider, staff = ALICE, plugin: RateLimitOptions = {}) {
  const started = await startWithStaff(t, provider, staff, { useDynamicRules: true, ...plugin })
  const { client } = started.app.smartRateLimit
  return {
    ...started,
    overrides: () => client.rateLimitOverride.findMany({ orderBy: { id: 'asc' } }),
    history: () => started.app.smartRateLimit.rules.history(),
    open: (name = CLIENT, cookie?: string) => openClient(started.request, name, cookie),
    /** Does an action, and follows to the page that it leads to. */
    async do(page: OpenedPage, ...action: [Parameters<typeof act>[2], Parameters<typeof act>[3]?]) {
      const answer = await act(started.request, page, ...action)
      assert.equal(answer.status, 303, answer.text)
      const cookie = keepCookies(page.cookie, answer)
      const { location = '' } = answer.headers
      assert.doesNotMatch(location, /^\//, 'links are relative')
      return openClient(started.request, new URLSearchParams(location.split('?')[1]).get('client') ?? '', cookie)
    },
  }
}

forAnyDatabase((provider) => {
  test('a note of the longest that is allowed is saved, whatever characters it has', long(), async (t) => {
    const { open, overrides, ...its } = await start(t, provider)
    await its.do(await open(), 'block', { for: '1h', note: '語'.repeat(1_000) })
    assert.deepEqual(
      (await overrides()).map(({ note }) => note),
      ['語'.repeat(1_000)],
    )
  })

  test('a block of two hours refuses at once, names who and until when, and is ended from the same page', async (t) => {
    const { clock, statuses, open, history, ...its } = await start(t, provider)
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [200])

    const blocked = await its.do(await open(), 'block', { length: '2h', note: 'scrapes /search' })
    assert.deepEqual(noticeOf(blocked), ['success', 'Denied until 2026-01-15 14:00:00 UTC.'])
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
    assert.match(withoutTimes(blocked.text), /<h2>Denied until 2026-01-15 14:00:00 UTC<\/h2>\s*<p>by alice, since/)
    assert.match(blocked.text, /scrapes \/search/)
    assert.match(blocked.text, /<button class="primary">End the block<\/button>/)
    assert.match(blocked.text, /Block for this time instead/)
    assert.doesNotMatch(blocked.text, /name="for" value="2h"/)

    clock.advance(1_000)
    const ended = await its.do(blocked, 'end')
    assert.deepEqual(noticeOf(ended), ['success', 'It has ended: the limits apply again.'])
    assert.doesNotMatch(ended.text, /End the block|<h2>Blocked/)
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [200])
    assert.deepEqual(
      (await history()).map(({ actor, source, action }) => [actor, source, action]),
      [
        ['alice', 'dashboard', 'delete'],
        ['alice', 'dashboard', 'create'],
      ],
    )
  })

  test('open pages share one report of a client; an action has its own, and keeps its window, and its notice is not theirs', async (t) => {
    const { open, statuses, request } = await start(t, provider)
    await statuses(2, '/', { from: BAD })
    const page = await open()
    const at = `${DASHBOARD}client.html?client=${CLIENT}&days=1`
    const shown = async (path: string, cookie = '') => {
      const { text } = await request(path, { headers: { cookie } })
      return [/<dt>Requests<\/dt><dd>(\d+)/.exec(text)?.[1], noticeOf({ ...page, text })?.[0]]
    }
    await statuses(1, '/', { from: BAD })
    assert.deepEqual(await shown(`${at}&follow=1`), ['2', undefined])
    assert.deepEqual(await shown(`${at}&live=on`), ['2', undefined])
    assert.deepEqual(await shown(at), ['3', undefined])

    await statuses(1, '/', { from: BAD })
    const answer = await act(request, page, 'block', {
      for: '15m',
      days: '',
      minutes: '15',
      live: 'on',
      back: 'path=/a',
    })
    const { location = '' } = answer.headers
    assert.equal(location, `client.html?client=${encodeURIComponent(CLIENT)}&back=path%3D%252Fa&minutes=15&live=on`)
    const cookie = keepCookies(page.cookie, answer)
    assert.deepEqual(await shown(`${DASHBOARD}${location}&follow=1`, cookie), ['4', undefined])
    await statuses(1, '/', { from: BAD })
    // A reload of what is followed takes the shared report, but for the page that an action leads to.
    assert.deepEqual(await shown(`${DASHBOARD}${location}`), ['4', undefined])
    assert.deepEqual(await shown(`${DASHBOARD}${location}`, cookie), ['5', 'success'])
  })

  test(
    'a block leaves a raise or a pass as it is, which is in force again when the block has ended or is over',
    long(),
    async (t) => {
      const { clock, statuses, overrides, open, ...its } = await start(t, provider)
      for (const [action, field, effect, words] of [
        ['raise', { to: '3/m', keep: '24h' }, '3/m', 'Limited to 3/m until 2026-01-16 12:00:00 UTC'],
        ['allow', { keep: '24h' }, 'allow', 'Exempt from all limits until 2026-01-16 12:00:00 UTC'],
      ] as const) {
        const stored = async () => (await overrides()).map((its) => its.effect)
        await its.do(await open(), action, field)
        const blocked = await its.do(await open(), 'block', { for: '1h' })
        assert.deepEqual(noticeOf(blocked), ['success', 'Denied until 2026-01-15 13:00:00 UTC.'])
        assert.match(withoutTimes(blocked.text), new RegExp(`<h2>${words}</h2>.*?The block takes precedence`, 's'))
        assert.doesNotMatch(blocked.text, /where the path matches/)
        assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])

        const longer = await its.do(blocked, 'block', { for: '15m' })
        assert.deepEqual(await stored(), [effect, 'deny'])
        const ended = await its.do(longer, 'end')
        assert.deepEqual(noticeOf(ended), ['success', `It has ended: ${words}.`])
        assert.deepEqual(await stored(), [effect])
        assert.deepEqual(await statuses(3, '/', { from: BAD }), [200, 200, 200])

        // A raise or a pass takes the place of the block.
        const again = await its.do(await its.do(ended, 'block', { for: '15m' }), action, field)
        assert.deepEqual(noticeOf(again), ['success', `${words}. The block until 2026-01-15 12:15:00 UTC has ended.`])
        assert.deepEqual(await stored(), [effect])
      }

      await its.do(await open(), 'block', { for: '15m' })
      assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
      clock.advance(HOUR_MS)
      assert.deepEqual(await statuses(3, '/', { from: BAD }), [200, 200, 200])
      await its.do(await open(), 'block', { for: '15m' })
      assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
      clock.advance(24 * HOUR_MS)
      const over = await open()
      assert.doesNotMatch(over.text, /<h2>Blocked|<h2>Exempt/)
      await its.do(over, 'block', { for: '15m' })
      assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
    },
  )

  test('every length of a block is obeyed; another one is refused with what was typed', async (t) => {
    const { clock, overrides, open, ...its } = await start(t, provider)
    for (const [wish, hours] of [
      [{ for: '15m' }, 0.25],
      [{ for: '1h' }, 1],
      [{ for: '24h' }, 24],
      [{ for: 'ever' }, null],
      [{ length: ' 7D ' }, 7 * 24],
      [{ keep: '24h' }, 24],
    ] as const) {
      await its.do(await open(), 'block', wish)
      const [stored, ...others] = await overrides()
      assert.deepEqual(others, [])
      assert.equal(stored?.expiresAt?.getTime() ?? null, hours === null ? null : clock.now() + hours * HOUR_MS)
    }
    const stored = async () => (await overrides()).map(({ effect, expiresAt }) => [effect, expiresAt?.getTime()])
    const before = await stored()
    for (const length of ['0h', '-1h', '2', '367d', '1e9h', '2h; DROP', '９h', 'x'.repeat(2_000)]) {
      const refused = await its.do(await open(), 'block', { length })
      const [kind, text] = noticeOf(refused) ?? []
      assert.equal(kind, 'failure', length)
      assert.match(text ?? '', /is not a valid duration: give 30m, 2h or 7d|^"x+$/)
      if (length === '367d') assert.equal(refused.fieldsOf('block')?.length, '367d')
    }
    assert.deepEqual(await stored(), before)
  })

  test('a rate for all paths replaces the most generous limit, with the algorithm of that, and then the override', async (t) => {
    const { app, statuses, overrides, open, ...its } = await start(t, provider, ALICE, { useDynamicRules: true })
    await app.smartRateLimit.client.rateLimitRule.create({
      data: { name: 'search', pathPattern: '^/search', rate: '3/m, 200/h', algorithm: 'sliding_window' },
    })
    assert.deepEqual(await statuses(4, '/search', { from: BAD }), [200, 200, 200, 429])
    const page = await open()
    assert.match(page.text, /instead of 3\/m, 200\/h, its most generous limit \(search\)/)

    const raised = await its.do(page, 'raise', { to: '15/m, 1000/h', keep: '24h' })
    assert.deepEqual(noticeOf(raised), ['success', 'Limited to 15/m, 1000/h until 2026-01-16 12:00:00 UTC.'])
    const [stored] = await overrides()
    assert.deepEqual([stored?.effect, stored?.algorithm], ['15/m, 1000/h', 'sliding_window'])
    assert.deepEqual(await statuses(1, '/search', { from: BAD }), [200])
    // The next raise starts from the override.
    assert.match(raised.text, /instead of 15\/m, 1000\/h, its override/)
  })

  test('a rate for all paths names the limit that lets the client through most, or the default', async (t) => {
    const { app, statuses, open, ...its } = await start(t, provider, ALICE, { middleware: { defaultRate: '9/m' } })
    const rules = app.smartRateLimit.client.rateLimitRule
    await rules.create({ data: { name: 'login', pathPattern: '^/login', rate: '2/m' } })
    await statuses(3, '/login', { from: BAD })
    const page = await open()
    assert.match(page.text, /instead of 9\/m, the default rate/)
    assert.match(page.text, /The rate applies to all paths together\./)
    assert.match((await open('ip:203.0.113.0/24')).text, /The rate applies to each address, for all paths together\./)
    const raised = await its.do(page, 'raise', { to: '18/m' })
    assert.deepEqual(noticeOf(raised), ['success', 'Limited to 18/m for ever.'])
    assert.deepEqual(await statuses(10, '/', { from: BAD }), Array(10).fill(200))

    // Of two limits each allows what the other one refuses.
    await its.do(raised, 'end')
    await rules.updateMany({ data: { rate: '60/h' } })
    const both = await open()
    assert.match(both.text, /instead of 60\/m, 540\/h, what its limits allow together/)
  })

  test('a typed rate that is less than a limit of the client says so', async (t) => {
    const { open, ...its } = await start(t, provider)
    const lower = await its.do(await open(), 'raise', { to: 'typed', rate: '1/m' })
    assert.deepEqual(noticeOf(lower), [
      'success',
      'Limited to 1/m for ever. This may be less than 2/m, the default rate.',
    ])
  })

  test('what is set inside a network that is blocked says that the block goes first, and where it is ended', async (t) => {
    const { app, statuses, open, ...its } = await start(t, provider)
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: 'deny' } })
    const page = await open()
    const first =
      /The block of <a class="code" href="client\.html\?client&#x3D;ip%3A203\.0\.113\.0%2F24&amp;days&#x3D;1">ip:203\.0\.113\.0\/24<\/a> takes precedence:<\/b> a rate or an exemption that is set here applies only after/
    assert.match(page.text, first)
    for (const [action, words] of [
      ['allow', 'Exempt from all limits for ever'],
      ['raise', 'Limited to 4/m for ever'],
    ] as const) {
      const [kind, text = ''] = noticeOf(await its.do(await open(), action, { to: '4/m' })) ?? []
      assert.equal(kind, 'failure')
      assert.match(
        text,
        new RegExp(
          `^Denied for ever, as before\\. The block of ip:203\\.0\\.113\\.0/24 takes precedence; after it: ${words}\\. <a href="client\\.html\\?client=ip%3A203\\.0\\.113\\.0%2F24&days=1">Open the page of`,
        ),
      )
      assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
    }
    assert.match((await open()).text, /<h2>Limited to 4\/m for ever<\/h2>.*?The block takes precedence/s)
    // A block of its own is as narrow as it says.
    assert.equal(noticeOf(await its.do(await open(), 'block', { for: '1h' }))?.[0], 'success')
  })

  test('a rate that is none is refused with what was typed, and an effect is no rate', long(), async (t) => {
    const { overrides, open, ...its } = await start(t, provider)
    for (const rate of ['fast', 'deny', 'allow', '', '5/fortnight', '1/s, 2/s', `5/m${' '.repeat(300)}x`]) {
      const page = await its.do(await open(), 'raise', { to: 'typed', rate, note: 'a customer' })
      assert.equal(noticeOf(page)?.[0], 'failure', rate)
      if (rate.length < 100) assert.equal(page.fieldsOf('block')?.rate, rate)
      if (rate.length < 100) assert.equal(page.fieldsOf('block')?.note, 'a customer')
      assert.match(page.text, /<details class="menu" name="client-menu" open>/)
    }
    assert.deepEqual(await overrides(), [])
  })

  test('a client is exempt while it is allowed, and a user is named as well as an address', async (t) => {
    const plugin: RateLimitOptions = {
      user: ({ headers }) => (typeof headers['x-user'] === 'string' ? { id: headers['x-user'] } : null),
      middleware: { defaultRate: '1/m', key: 'user' },
    }
    const { statuses, open, ...its } = await start(t, provider, ALICE, plugin)
    const asked = { headers: { 'x-user': 'o"<b>&7' } }
    assert.deepEqual(await statuses(2, '/', asked), [200, 429])
    const allowed = await its.do(await open('user:o"<b>&7'), 'allow', { keep: '1h' })
    assert.deepEqual(noticeOf(allowed), ['success', 'Exempt from all limits until 2026-01-15 13:00:00 UTC.'])
    assert.deepEqual(await statuses(3, '/', asked), [200, 200, 200])
  })

  test('the page of a client shows the end of a block on its network, which concerns others too', async (t) => {
    const { app, statuses, open, ...its } = await start(t, provider)
    await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.0/24', effect: 'deny' } })
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
    const page = await open()
    assert.match(page.text, /End the block of ip:203\.0\.113\.0\/24/)
    await its.do(page, 'end')
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [200])
  })

  test('a network that is wider than any provider has is not blocked by a click', async (t) => {
    const { overrides, open, ...its } = await start(t, provider)
    for (const client of ['ip:0.0.0.0/0', 'ip:10.0.0.0/7', 'ip:2000::/18']) {
      const [kind, text] = noticeOf(await its.do(await open(client), 'block', { for: '15m' })) ?? []
      assert.equal(kind, 'failure', client)
      assert.match(
        text ?? '',
        /a network wider than.*only on the page Overrides and bans, or by ratelimit override add/,
      )
    }
    assert.deepEqual(await overrides(), [])
    for (const client of ['ip:10.0.0.0/8', 'ip:2000::/19']) {
      assert.equal(noticeOf(await its.do(await open(client), 'block', { for: '15m' }))?.[0], 'success', client)
    }
  })

  test('of two operators who saw the same page one is told that nothing was changed', async (t) => {
    const { request, overrides, history, clock } = await start(t, provider, ALICE_OR_BOB)
    const asBob = (path: string, asked: Parameters<typeof request>[1] = {}) =>
      request(path, { ...asked, headers: { ...asked.headers, [BOB_HEADER]: '1' } })
    const race = async (...action: ['block' | 'raise' | 'end', Record<string, string>?]) => {
      const pages = [await openClient(request, CLIENT), await openClient(asBob, CLIENT)] as const
      // Nobody acts in the millisecond of the change before.
      clock.advance(1)
      const answers = await Promise.all([act(request, pages[0], ...action), act(asBob, pages[1], ...action)])
      const shown = await Promise.all(
        answers.map(({ status, headers }, place) => {
          assert.equal(status, 303)
          return openClient(place === 0 ? request : asBob, CLIENT, cookieOf(headers))
        }),
      )
      const notices = shown.map((page) => noticeOf(page))
      assert.deepEqual(notices.map((its) => its?.[0]).toSorted(), ['failure', 'success'], JSON.stringify(notices))
      assert.match(notices.find((its) => its?.[0] === 'failure')?.[1] ?? '', CHANGED)
    }
    await race('block', { for: '1h' })
    assert.equal((await overrides()).length, 1)
    await race('raise', { to: '9/m' })
    assert.deepEqual(
      (await overrides()).map(({ effect }) => effect),
      ['9/m'],
    )
    await race('end')
    assert.deepEqual(await overrides(), [])
    assert.equal((await history()).length, 3)
  })

  test('an override that ended meanwhile is not written over, and one that is over is', async (t) => {
    const { app, clock, statuses, overrides, open, ...its } = await start(t, provider)
    const blocked = await its.do(await open(), 'block', { for: '15m' })
    await app.smartRateLimit.client.rateLimitOverride.deleteMany()
    for (const action of ['end', 'raise'] as const) {
      assert.match(noticeOf(await its.do(blocked, action, { to: '9/m' }))?.[1] ?? '', CHANGED)
    }
    assert.deepEqual(await overrides(), [])

    await its.do(await open(), 'block', { for: '15m' })
    clock.advance(HOUR_MS)
    const over = await open()
    assert.doesNotMatch(over.text, /End the block/)
    assert.equal(noticeOf(await its.do(over, 'block', { for: '15m' }))?.[0], 'success')
    assert.equal((await overrides()).length, 1)
    assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
  })

  test('a notice is shown once, and only on the page of its client', async (t) => {
    const { request, open, ...its } = await start(t, provider)
    const page = await open()
    const { headers } = await act(request, page, 'block', { for: '1h' })
    const cookie = `${page.cookie}; ${cookieOf(headers)}`
    assert.equal(noticeOf(await open('ip:192.0.2.1', cookie)), undefined)
    const shown = await open(CLIENT, cookie)
    assert.equal(noticeOf(shown)?.[0], 'success')
    assert.match(String(shown.headers['set-cookie']), /ratelimit_staff_notice=; Max-Age=0/)
    for (const notice of ['e30', 'bnVsbA', 'W10', 'x', `${'A'.repeat(3_000)}`]) {
      assert.equal(noticeOf(await open(CLIENT, `ratelimit_staff_notice=${notice}`)), undefined)
    }
    await its.do(page, 'allow')
  })

  test('a wrong token, or that of another browser or operator, changes nothing', async (t) => {
    const { request, overrides, open } = await start(t, provider, ALICE_OR_BOB)
    const page = await open()
    const stranger = await open()
    assert.match(
      String(page.headers['set-cookie']),
      /^ratelimit_staff_form=[\w-]{43}; Max-Age=\d+; Path=; HttpOnly; SameSite=Strict$/,
    )
    const attempts = [
      act(request, page, 'block', { for: '1h', token: '' }),
      act(request, page, 'block', { for: '1h', token: 'x'.repeat(43) }),
      act(request, page, 'block', { for: '1h', token: '鍵' }),
      act(request, page, 'block', { for: '1h', token: stranger.fieldsOf('block')?.token ?? '' }),
      act(request, { ...page, cookie: '' }, 'block', { for: '1h' }),
      act(request, page, 'block', { for: '1h' }, { ...SAME_ORIGIN, [BOB_HEADER]: '1' }),
    ]
    for (const attempt of attempts) {
      const { status, text } = await attempt
      assert.equal(status, 403)
      assert.match(text, /The form is out of date, and nothing was changed/)
    }
    assert.deepEqual(await overrides(), [])
  })

  test('a form of another site, or of nowhere, changes nothing', async (t) => {
    const { request, origin, overrides, open } = await start(t, provider)
    const page = await open()
    const senders: Record<string, string>[] = [
      {},
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
      { 'sec-fetch-site': 'cross-site', origin },
      { origin: 'https://evil.test' },
      { origin: 'null' },
      { origin: origin.replace('http:', 'https:') },
    ]
    for (const headers of senders) {
      for (const action of ['block', 'raise', 'allow', 'end'] as const) {
        const { status, text } = await act(request, page, action, { for: '1h', to: '9/m', seen: '1:1' }, headers)
        assert.equal(status, 403, JSON.stringify(headers))
        assert.match(text, /did not come from a page of this site/)
      }
    }
    assert.deepEqual(await overrides(), [])
    assert.equal((await act(request, page, 'block', { for: '1h' }, { origin })).status, 303)
  })

  test('staff without a name, and viewers, are offered no action and refused every one', async (t) => {
    const viewers: [DashboardOptions, RegExp][] = [
      [{ isStaff: () => true }, /isStaff must return { actor, role } instead of true/],
      [
        { isStaff: () => ({ actor: 'eve', role: 'viewer' }) },
        /The role viewer may not create, change, end and import overrides.*needs the role operator/,
      ],
    ]
    for (const [staff, message] of viewers) {
      const { app, request, open, overrides } = await start(t, provider, staff)
      await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: CLIENT, effect: 'deny' } })
      const page = await open()
      assert.equal(page.status, 200)
      assert.match(page.text, /<h2>Denied for ever<\/h2>/)
      assert.doesNotMatch(page.text, /method="post"|ratelimit_staff_form/)
      assert.equal(page.headers['set-cookie'], undefined)
      for (const action of ['block', 'raise', 'allow', 'end'] as const) {
        const { status, text } = await act(request, page, action)
        assert.equal(status, 403)
        assert.match(text, message)
      }
      assert.equal((await overrides()).length, 1)
    }
  })

  test(
    'whoever is no staff gets no page and no action, also when isStaff answers a name without a known role',
    long(),
    async (t) => {
      const answers = [false, 'root', { actor: 'alice' }, { actor: '', role: 'admin' }, { actor: 'a', role: 'root' }]
      for (const answer of answers) {
        // Hosts in JavaScript answer what they like.
        const { request } = await start(t, provider, { isStaff: () => answer as boolean })
        for (const [method, path] of [
          ['GET', 'client.html?client=ip:192.0.2.1'],
          ['GET', 'search.html?q=7'],
          ['POST', 'block'],
          ['POST', 'end'],
        ] as const) {
          const { status } = await request(DASHBOARD + path, { method, headers: SAME_ORIGIN })
          assert.equal(status, 403, `${JSON.stringify(answer)} ${method} ${path}`)
        }
      }
    },
  )

  test('an account of the built-in sign-in acts under its name, until its session ends', async (t) => {
    const { request, signIn, history, overrides } = await start(t, provider, {
      staff: staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET }),
    })
    const session = cookieOf((await signIn(PASSWORD)).headers)
    const page = await openClient(request, CLIENT, session)
    assert.equal((await act(request, page, 'block', { for: '1h' })).status, 303)
    assert.deepEqual(
      (await history()).map(({ actor }) => actor),
      ['alice'],
    )

    await request(`${DASHBOARD}sign-out`, { method: 'POST', headers: { cookie: session, ...SAME_ORIGIN } })
    const late = await act(request, page, 'allow')
    assert.equal(late.status, 403)
    assert.match(late.text, /<form class="fields" method="post" action="sign-in">/)
    assert.match(late.text, /Nothing was changed: you are signed out/)
    assert.deepEqual(
      (await overrides()).map(({ effect }) => effect),
      ['deny'],
    )
  })

  test('what no page sends is a 400, 413 or 415, never a 500, and changes nothing', async (t) => {
    const { request, open, overrides, ...its } = await start(t, provider)
    const page = await open()
    for (const fields of [
      { client: '' },
      { client: 'header:x-key:7' },
      { client: 'ip:203.0.113.7/24' },
      { client: `user:${'x'.repeat(300)}` },
      { client: 'user:a\0' },
      { client: 'user: 7' },
      { client: 'user:7\r\n8' },
      { seen: '1' },
      { seen: '-1:0' },
      { seen: '9999999999:1' },
      { seen: '1:9999999999999999' },
    ]) {
      for (const action of ['block', 'raise', 'allow'] as const) {
        const { status } = await act(request, page, action, { for: '1h', to: '9/m', ...fields })
        assert.equal(status, 400, JSON.stringify(fields))
      }
    }
    assert.match(noticeOf(await its.do(page, 'end', { seen: '' }))?.[1] ?? '', CHANGED)
    assert.equal((await act(request, page, 'block', { note: 'x'.repeat(70_000) })).status, 413)
    const json = { 'content-type': 'application/json', ...SAME_ORIGIN, cookie: page.cookie }
    assert.equal((await request(`${DASHBOARD}block`, { method: 'POST', body: '{}', headers: json })).status, 415)
    for (const method of ['GET', 'PUT', 'DELETE']) {
      assert.equal((await request(`${DASHBOARD}block`, { method, headers: SAME_ORIGIN })).status, 404)
    }
    assert.deepEqual(await overrides(), [])
  })
})
