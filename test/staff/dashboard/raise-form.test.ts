/** Raise, from everywhere: the form of an override of the limit that refused a client, to above what it asked for. */

import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../../src/database/database.js'
import { DAY_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { asActor } from '../../../src/rules/history/actor.js'
import { raisedRate } from '../../../src/staff/dashboard/raised-rate.js'
import type { StaffRole } from '../../../src/staff/shell/roles.js'
import { dateChanges } from '../../support/changes.js'
import { unescapeHtml } from '../../support/client-forms.js'
import { logRows } from '../../support/events.js'
import { openForms } from '../../support/staff-forms.js'

const CLIENT = 'user:7'
const RAISE = `raise-form?client=${encodeURIComponent(CLIENT)}`

async function start(t: TestContext, role: StaffRole = 'operator') {
  const forms = await openForms(t, 'sqlite', role)
  const { client, rules } = forms.app.smartRateLimit
  await client.rateLimitRule.create({ data: { name: 'search', pathPattern: '^/search', rate: '5/m' } })
  await rules.reload()
  const nowMs = forms.clock.now()
  /** Logs refusals, all within one minute. */
  const refuse = (count: number, event: Partial<RateLimitEvent> = {}) =>
    logRows(
      databaseFor(client),
      Array.from({ length: count }, () => ({
        timestampMs: nowMs - 5 * MINUTE_MS,
        client: CLIENT,
        key: 'rule:search:user:7',
        ruleName: 'search',
        policy: 'search',
        path: '/search',
        allowed: false,
        outcome: 'over_limit' as const,
        ...event,
      })),
    )
  /** Follows Raise to the page that it leads to, with its notice, as words. */
  const raise = async () => {
    const led = await forms.get(RAISE)
    assert.equal(led.status, 303)
    const address = String(led.headers.location)
    const page = await forms.get(address, led)
    const words = unescapeHtml(page.text.replace(/<style[\s\S]*?<\/style>|<[^>]*>/g, ' ').replace(/\s+/g, ' '))
    return { address, page, words }
  }
  const stored = async () =>
    (await client.rateLimitOverride.findMany({ orderBy: { id: 'asc' } })).map(({ effect, pathPattern }) => [
      effect,
      pathPattern,
    ])
  return { ...forms, client, rules, nowMs, refuse, raise, stored }
}

/** Returns the fields of an override's form, as it shows them. */
function fieldsOf(html: string): Record<string, string> {
  const inputs = html.matchAll(/<input[^>]* name="(client|effect|pathPattern|expiresAt)"[^>]* value="([^"]*)"/g)
  return Object.fromEntries(Array.from(inputs, ([, name = '', value = '']) => [name, unescapeHtml(value)]))
}

test('a second Raise opens the override that the first one wrote, from the rate in force, so that saving works', async (t) => {
  const its = await start(t)
  await its.refuse(8)
  const first = await its.raise()
  assert.match(
    first.words,
    /The rule search allows user:7 5\/m where the path matches \^\/search\. It asked for 8 within one minute\. 10\/m is proposed; nothing is saved yet\./,
  )
  const form = await its.open(first.address)
  assert.equal((await form.submit(fieldsOf(form.text), {}, 'override.html')).status, 303)
  assert.deepEqual(await its.stored(), [['10/m', '^/search']])

  await its.refuse(17, { policy: 'override', ruleName: '' })
  const second = await its.raise()
  assert.match(second.address, /^override\.html\?id=\d+&effect=40%2Fm$/)
  assert.match(
    second.words,
    /The override in force allows user:7 10\/m where .* It asked for 25 within one minute\. 40\/m/,
  )
  const again = await its.open(second.address)
  assert.match(again.text, /Nothing is saved yet: 40\/m is proposed, 10\/m is stored\./)
  assert.equal((await again.submit(fieldsOf(again.text), {}, second.address)).status, 303)
  assert.deepEqual(await its.stored(), [['40/m', '^/search']])
})

test('an override that is over is proposed anew, for a day', async (t) => {
  const { client, rules, clock, refuse, raise, stored, open, nowMs } = await start(t)
  const expiresAt = new Date(nowMs + MINUTE_MS)
  await client.rateLimitOverride.create({
    data: { client: CLIENT, effect: '7/m', pathPattern: '^/search', expiresAt },
  })
  await refuse(3)
  clock.advance(2 * MINUTE_MS)
  await rules.reload()
  const { address } = await raise()
  assert.match(address, /^override\.html\?id=\d+&effect=10%2Fm&algorithm=fixed_window&expiresAt=24h$/)
  const form = await open(address)
  assert.equal((await form.submit(fieldsOf(form.text), {}, address)).status, 303)
  assert.deepEqual(await stored(), [['10/m', '^/search']])
  const [override] = await client.rateLimitOverride.findMany()
  assert.equal(override?.expiresAt?.getTime(), nowMs + 2 * MINUTE_MS + DAY_MS)
})

test('a form for a client and a path that have an override leads to that one', async (t) => {
  const { client, open } = await start(t)
  const { id } = await client.rateLimitOverride.create({
    data: { client: CLIENT, effect: '7/m', pathPattern: '^/search' },
  })
  const form = await open('override.html')
  const taken = await form.submit({ client: CLIENT, effect: '9/m', pathPattern: '^/search' })
  assert.equal(taken.status, 400)
  assert.match(taken.text, new RegExp(`<a href="override\\.html\\?id&#x3D;${id}">Open that override</a>`))
})

test('what a block or nothing refuses is not raised: the page of the client says why', async (t) => {
  const { client, rules, refuse, raise } = await start(t)
  const nothing = await raise()
  assert.match(nothing.address, /^client\.html\?client=user%3A7&/)
  assert.match(nothing.words, /No limit refused it in the last day that an override can raise\./)
  await refuse(3)
  await client.rateLimitOverride.create({ data: { client: CLIENT, effect: 'deny' } })
  await rules.reload()
  assert.match((await raise()).words, /The block of user:7 takes precedence: end that first\./)
})

test('no button raises what no override can: tokens, a field of users, limits of groups, prefixes', async (t) => {
  const { client, rules, refuse, raise, get } = await start(t)
  const data = { pathPattern: '^/llm', rate: '500/h', key: 'user.org' }
  await client.rateLimitRule.createMany({
    data: [
      { ...data, name: 'tokens', unit: 'tokens' },
      { ...data, name: 'by-field' },
      { ...data, name: 'of-group', group: 'team' },
    ],
  })
  await rules.reload()
  const pages = [`client.html?client=${CLIENT}&days=1`, '', 'clients.html']
  const buttons = async () =>
    Promise.all(pages.map(async (page) => /class="button raise" href="([^"]*)"/.test((await get(page)).text)))
  for (const policy of ['tokens', 'of-group', '/auth/']) {
    await refuse(60, { policy, ruleName: policy, key: `rule:${policy}:user:7`, path: '/llm' })
    assert.deepEqual(await buttons(), [false, false, false], policy)
    assert.match((await raise()).words, /No limit refused it in the last day that an override can raise\./)
  }
  // No override is for the organisation, whose incident is on the dashboard.
  const acme = 'user.org:acme'
  await refuse(300, {
    policy: 'by-field',
    ruleName: 'by-field',
    client: acme,
    key: 'rule:by-field:acme',
    path: '/llm',
  })
  const dashboard = (await get('')).text
  assert.match(dashboard, /acme/)
  for (const page of [dashboard, (await get(`client.html?client=${acme}&days=1`)).text]) {
    assert.doesNotMatch(page, /class="button raise"|href="raise-form/)
  }
  assert.equal((await get(`raise-form?client=${acme}`)).status, 400)
  // Another limit refused it less often, and can be raised.
  await refuse(3)
  assert.equal((await buttons())[0], true)
  assert.match((await raise()).words, /The rule search allows user:7 5\/m/)
})

test('the default limit is raised on all paths, and lowers no rule', async (t) => {
  const { refuse, raise } = await start(t)
  await refuse(3, { policy: 'default', ruleName: '', path: '/' })
  await refuse(1)
  const { address } = await raise()
  const query = new URLSearchParams(address.split('?')[1])
  assert.deepEqual([query.get('effect'), query.get('pathPattern')], ['10/m', ''])
})

test('a rule whose rate was lowered in the last day says so on top, with Revert for those who may', async (t) => {
  for (const role of ['admin', 'operator'] as const) {
    const { client, clock, open, get } = await start(t, role)
    const page = 'rule.html?named=search'
    assert.doesNotMatch((await get(page)).text, /class="notice lowered"/)
    const edit = (rate: string) =>
      asActor('grace', () => client.rateLimitRule.update({ where: { name: 'search' }, data: { rate } }))
    await edit('9/m')
    assert.doesNotMatch((await get(page)).text, /class="notice lowered"/)
    await edit('2/m')
    const form = await open(`${page}&rate=4%2Fm`)
    const [, notice = ''] = /<div class="notice lowered"([\s\S]*?)<\/div>/.exec(form.text) ?? []
    assert.match(notice, /<b>9\/m<\/b> until <bdi>grace<\/bdi> changed it at <time/)
    assert.equal(/action="change-revert"/.test(notice), role === 'admin')
    assert.equal(/An admin can change this rule/.test(form.text), role === 'operator')
    if (role === 'admin') {
      // The proposed field comes first, and its notice is there until it is saved.
      assert.ok(form.text.indexOf('id="field-rate"') < form.text.indexOf('id="field-name"'))
      const previewed = await form.submit({ rate: '4/m', do: 'preview' })
      assert.match(previewed.text, /Nothing is saved yet: 4\/m is proposed, 2\/m is stored\./)
      const [, id = ''] = /name="id" value="(\d+)"/.exec(notice) ?? []
      assert.equal((await form.submit({ id }, {}, 'change-revert')).status, 303)
      assert.equal((await client.rateLimitRule.findFirst())?.rate, '9/m')
    } else {
      // The database says when something was changed.
      await dateChanges(databaseFor(client), clock.now() - DAY_MS - MINUTE_MS)
      assert.doesNotMatch((await get(page)).text, /class="notice lowered"/)
    }
  }
})

test('of two overrides of a client each has its own count, and one applies now', async (t) => {
  const { client, rules, request, refuse, get } = await start(t)
  const from = '203.0.113.9'
  const overrides = client.rateLimitOverride
  await overrides.create({ data: { client: `ip:${from}`, effect: '200/m' } })
  await overrides.create({ data: { client: `ip:${from}`, effect: '240/m', pathPattern: '^/search' } })
  await rules.reload()
  for (const path of ['/', '/search', '/search', '/search']) {
    await request(path, { from })
    await refuse(1, { client: `ip:${from}`, key: from, policy: 'override', ruleName: '', path })
  }
  const { text } = await get(`client.html?client=ip%3A${from}`)
  const cards = text.split('data-key="override-').slice(1, 3)
  const [onSearch = '', onAll = ''] = cards
  assert.match(onSearch, /Limited to 240\/m[\s\S]*Applies now:[\s\S]*3 used, 237 left/)
  assert.match(
    onAll,
    /Limited to 200\/m[\s\S]*does not apply to requests such as the latest one[\s\S]*1 used, 199 left/,
  )
})

test('an operator reads that an admin can raise a rule that refuses many clients', async (t) => {
  for (const role of ['operator', 'admin', 'viewer'] as const) {
    const { refuse, get } = await start(t, role)
    for (let each = 0; each < 25; each++) await refuse(10, { client: `user:${each}`, key: `rule:search:user:${each}` })
    assert.equal(/An admin can raise this/.test((await get('')).text), role === 'operator', role)
  }
})

test('viewers may not raise, and no form is for a client that overrides cannot name', async (t) => {
  const viewer = await start(t, 'viewer')
  assert.equal((await viewer.get(RAISE)).status, 403)
  const operator = await start(t)
  for (const client of ['', 'header:x:"><script>alert(1)</script>', 'ip:999.1.1.1']) {
    const { status, text } = await operator.get(`raise-form?client=${encodeURIComponent(client)}`)
    assert.equal(status, 400, client)
    assert.doesNotMatch(text, /<script>alert/)
  }
})

test('a raise is to twice a rate, doubled until it is above what was asked for in each of its windows', () => {
  const asked = (count: number, everyMs: number) =>
    Array.from({ length: count }, (_, each) => ({ client: 'a', timestamp: new Date(each * everyMs).toISOString() }))
  const cases: [rate: string, requests: ReturnType<typeof asked>, raised: string | undefined][] = [
    ['60/m', [], '120/m'],
    ['120/m', asked(158, 300), '240/m'],
    ['60/m', asked(120, 500), '240/m'],
    ['60/m', asked(119, 500), '120/m'],
    ['10/s, 100/h', asked(250, 1_000), '40/s, 400/h'],
    // What several clients ask for is no client's own.
    ['60/m', [...asked(100, 100), ...asked(100, 100).map((each) => ({ ...each, client: 'b' }))], '120/m'],
    ['0/m', asked(5, 100), undefined],
    ['no rate', [], undefined],
  ]
  for (const [rate, requests, raised] of cases) assert.equal(raisedRate(rate, requests), raised, rate)
})
