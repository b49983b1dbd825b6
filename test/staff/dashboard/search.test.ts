/** One search finds clients, rules, overrides, paths and policies, for whoever may see them. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../../src/database/database.js'
import { DAY_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitOptions } from '../../../src/index.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import type { StaffRole } from '../../../src/staff/shell/roles.js'
import { readRows, unescapeHtml } from '../../support/client-forms.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'
import { logRows } from '../../support/events.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const HOSTILE = '"><script>alert(1)</script>{{page}}\u202e'

function by(client: string, its: Partial<RateLimitEvent> = {}): Partial<RateLimitEvent> {
  return { timestampMs: NOW_MS - MINUTE_MS, client, key: client, ruleName: '', policy: 'default', ...its }
}

async function start(t: TestContext, provider: Provider, role: StaffRole = 'viewer', plugin: RateLimitOptions = {}) {
  const staff = { isStaff: () => ({ actor: 'alice', role }) }
  const started = await startWithStaff(t, provider, staff, { useDynamicRules: true, ...plugin })
  const { client } = started.app.smartRateLimit
  return {
    ...started,
    client,
    log: (events: readonly Partial<RateLimitEvent>[]) => logRows(databaseFor(client), events),
    find: (text: string, further: Record<string, string> = {}) =>
      started.request(`${DASHBOARD}search.html?${new URLSearchParams({ q: text, ...further })}`),
  }
}

/** Returns the groups of a page: the number beside the title, where "all" leads, and its lines as readers see them. */
function groupsOf(html: string) {
  const sections = html.matchAll(/<section class="card found-group".*?<\/section>/gs)
  return Object.fromEntries(
    Array.from(sections, ([section]) => {
      const [, title = '', count = ''] = /<h2[^>]*>(.*?) <span class="faint">(.*?)<\/span><\/h2>/.exec(section) ?? []
      const [, all] = /<a href="([^"]*)">All /.exec(section) ?? []
      const [, list = ''] = /<(?:ul|tbody)[^>]*>(.*?)<\/(?:ul|tbody)>/s.exec(section) ?? []
      const links = Array.from(list.matchAll(/<a class="code" href="([^"]*)"/g), ([, href = '']) => unescapeHtml(href))
      const lines = readRows(list.replaceAll('</li>', '</tr>')).map(unescapeHtml)
      return [title, { count, all: all && unescapeHtml(all), links, lines }]
    }),
  )
}

forEachDatabase((provider) => {
  test('a word finds the rules, overrides, paths and policies that have it, each with what it is', async (t) => {
    const { client, log, find } = await start(t, provider)
    await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '^/sign-in', rate: '5/m' } })
    await client.rateLimitRule.create({
      data: { name: 'guests', pathPattern: '^/LOGIN', rate: '9/m', isActive: false, block: false, description: 'x' },
    })
    await client.rateLimitRule.create({ data: { name: 'other', pathPattern: '^/other', rate: '1/m' } })
    await client.rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny', note: 'Login probes' } })
    await log([
      ...Array(3).fill(by('user:7', { path: '/login', allowed: false, outcome: 'over_limit' })),
      by('user:8', { path: '/api/LoginForm' }),
      by('user:8', { path: '/login', ruleName: 'old-login', policy: 'old-login' }),
      by('user:9', { path: '/login-long-ago', timestampMs: NOW_MS - 8 * DAY_MS }),
      by('user:9', { path: '/other' }),
    ])
    const { status, text } = await find('login')
    assert.equal(status, 200)
    const groups = groupsOf(text)
    assert.deepEqual(Object.keys(groups), ['Rules', 'Overrides and bans', 'Paths', 'Policies'])
    assert.deepEqual(groups.Rules?.lines, [
      'login In force 5/m · ALL ^/sign-in',
      'guests Off 9/m · ALL ^/LOGIN · counts only',
    ])
    assert.deepEqual(groups.Rules?.links, ['rule.html?named=login', 'rule.html?named=guests'])
    assert.equal(groups['Overrides and bans']?.count, '1')
    assert.match(groups['Overrides and bans']?.lines[0] ?? '', /^user:7 Denied For ever .*“Login probes”$/)
    assert.deepEqual(groups.Paths?.lines, ['/login 4 requests · 3 refused', '/api/LoginForm 1 request'])
    assert.equal(groups.Paths?.links[0], './?days=7&path=%2Flogin')
    assert.deepEqual(groups.Policies?.lines, ['old-login a rule that no longer exists · 1 request'])
    assert.deepEqual(groups.Policies?.links, ['events.html?rule=old-login&days=7'])
    // A longer window has more paths.
    assert.equal(groupsOf((await find('login', { days: '30' })).text).Paths?.count, '3')
  })

  test('a group has ten lines, its number, and leads to the list of all of them', async (t) => {
    const { client, log, find, request } = await start(t, provider)
    const many = Array.from({ length: 12 }, (_, index) => String(index + 1).padStart(2, '0'))
    for (const number of many) {
      const priority = Number(number)
      await client.rateLimitRule.create({ data: { name: `shop-${number}`, pathPattern: '^/a', rate: '1/m', priority } })
      await client.rateLimitOverride.create({ data: { client: `user:shop-${number}`, effect: 'allow' } })
    }
    await client.rateLimitRule.create({ data: { name: 'SHOP', pathPattern: '^/b', rate: '1/m', priority: 999 } })
    await log(many.map((number) => by('user:1', { path: `/shop/${number}` })))
    const { text } = await find('shop')
    const { Rules: rules, 'Overrides and bans': overrides, Paths: paths } = groupsOf(text)
    assert.deepEqual(
      [rules, overrides, paths].map((group) => [group?.count, group?.lines.length, group?.all]),
      [
        ['13', 10, 'rules.html?q=shop'],
        ['12', 10, 'overrides.html?q=shop'],
        ['12', 10, 'search.html?q=shop&in=paths&days=7'],
      ],
    )
    // The rule of that name is first, whatever its priority.
    assert.match(rules?.lines[0] ?? '', /^SHOP /)
    const alone = groupsOf((await request(DASHBOARD + paths?.all)).text)
    assert.deepEqual(Object.keys(alone), ['Paths'])
    assert.equal(alone.Paths?.lines.length, 12)
    const { text: listed } = await request(DASHBOARD + rules?.all)
    assert.match(listed, /13 of 13 rules/)
  })

  test('the one client that a text means opens, unless its word is the name of something else', async (t) => {
    const { client, log, find } = await start(t, provider)
    await log([by('user:7', { path: '/items/7' }), by('user:login'), by('ip:203.0.113.7')])
    await client.rateLimitRule.create({ data: { name: 'v7-login', pathPattern: '^/', rate: '5/m' } })
    const ledTo = async (text: string) => {
      const { status, headers } = await find(text)
      return status === 303 ? new URLSearchParams(headers.location?.split('?')[1]).get('client') : status
    }
    assert.equal(await ledTo('7'), 'user:7')
    assert.equal(await ledTo('login'), 'user:login')
    await client.rateLimitRule.create({ data: { name: 'Login', pathPattern: '^/login', rate: '5/m' } })
    await client.rateLimitRule.create({ data: { name: '203.0.113.7', pathPattern: '^/x', rate: '5/m' } })
    assert.equal(await ledTo('login'), 200)
    assert.deepEqual(Object.keys(groupsOf((await find('login')).text)), ['Clients', 'Rules'])
    assert.equal(await ledTo('user:login'), 'user:login')
    assert.equal(await ledTo('203.0.113.7'), 'ip:203.0.113.7')
    assert.equal(await ledTo('override'), 200)
  })

  test('limits of the code are found by their names and routes', async (t) => {
    const { find } = await start(t, provider, 'viewer', {
      middleware: { defaultRate: '2/m', rateLimits: { '/auth/': '3/m' }, ceiling: '900/m' },
    })
    assert.deepEqual(groupsOf((await find('/AUTH')).text).Policies?.lines, [
      '/auth/ 3/m · set by middleware.rateLimits',
    ])
    assert.deepEqual(groupsOf((await find('default')).text).Policies?.lines, [
      'default 2/m · set by middleware.defaultRate',
    ])
    assert.deepEqual(groupsOf((await find('deny')).text).Policies?.links, ['events.html?rule=deny-list&days=7'])
  })

  test('hostile texts are found and shown as texts, and patterns are no patterns', async (t) => {
    const { client, log, find } = await start(t, provider)
    await log([by('user:1', { path: `/${HOSTILE}`, ruleName: HOSTILE.slice(0, 100), policy: HOSTILE.slice(0, 100) })])
    await client.rateLimitRule.create({
      data: { name: 'a-rule', pathPattern: '^/', rate: '1/m', description: HOSTILE },
    })
    await client.rateLimitOverride.create({ data: { client: 'user:2', effect: 'deny', note: HOSTILE } })
    const { text } = await find(HOSTILE)
    assert.deepEqual(Object.keys(groupsOf(text)), ['Rules', 'Overrides and bans', 'Paths', 'Policies'])
    assert.doesNotMatch(text.replaceAll(/<script src="live\.js"/g, ''), /<script/)
    assert.doesNotMatch(text.replaceAll(/value="[^"]*"/g, ''), /\u202e/)
    for (const pattern of ['%', '_', '\\', '%_%', "'", '"', '\0', '\ud800', '!%', '.*', '[', '(']) {
      const { status, text: html } = await find(pattern)
      assert.equal(status, 200, pattern)
      if (pattern.includes('%')) assert.deepEqual(groupsOf(html), {}, pattern)
    }
  })

  test('an empty search says what can be found, and one that is too long how long it may be', async (t) => {
    const { find, request } = await start(t, provider)
    for (const address of ['search.html', 'search.html?q=', 'search.html?q=%20%20']) {
      const { status, text } = await request(DASHBOARD + address)
      assert.equal(status, 200, address)
      assert.match(text, /One search for everything/)
      assert.match(text, /<dt>A network<\/dt><dd><code>203\.0\.113\.0\/24<\/code>/)
    }
    const { status, text } = await find('W'.repeat(501))
    assert.equal(status, 400)
    assert.match(text, /role="alert">A search takes 500 characters at most; this text has 501\./)
    assert.equal((await find('W'.repeat(500))).status, 200)
  })

  test('where addresses are pseudonyms or shortened, a typed address finds its client and its overrides', async (t) => {
    for (const addresses of ['pseudonym', 'truncated'] as const) {
      const { client, find, statuses, app } = await start(t, provider, 'viewer', {
        privacy: { addresses },
        hashSecret: 'a secret of the host, long enough',
      })
      await client.rateLimitOverride.create({ data: { client: 'ip:203.0.113.9', effect: '9/m', note: 'a customer' } })
      await statuses(2, '/', { from: '203.0.113.9' })
      await app.smartRateLimit.events.flush()
      const { status, headers } = await find('203.0.113.9')
      assert.equal(status, 303, addresses)
      assert.doesNotMatch(headers.location ?? '', /client=[^&]*203\.0\.113\.9/)
      const { text } = await find('customer')
      assert.equal(groupsOf(text)['Overrides and bans']?.count, '1')
    }
  })
})
