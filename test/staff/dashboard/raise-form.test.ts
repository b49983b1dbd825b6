/** Raise, from everywhere: the form of an override of the limit that refused a client, to above what it asked for. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { databaseFor } from '../../../src/database/database.js'
import { DAY_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import type { RateLimitEvent } from '../../../src/log/event.js'
import { raisedRate } from '../../../src/staff/dashboard/raised-rate.js'
import type { StaffRole } from '../../../src/staff/shell/roles.js'
import { unescapeHtml } from '../../support/client-forms.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'
import { logRows } from '../../support/log-events.js'
import { openForms } from '../../support/staff-forms.js'

const CLIENT = 'user:7'
const RAISE = `raise-form?client=${encodeURIComponent(CLIENT)}`

async function start(t: TestContext, provider: Provider, role: StaffRole = 'operator') {
  const forms = await openForms(t, provider, role)
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

forEachDatabase((provider) => {
  test('a second Raise opens the override that the first one wrote, from the rate in force, so that saving works', async (t) => {
    const its = await start(t, provider)
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
    const { client, rules, clock, refuse, raise, stored, open, nowMs } = await start(t, provider)
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
    const { client, open } = await start(t, provider)
    const { id } = await client.rateLimitOverride.create({
      data: { client: CLIENT, effect: '7/m', pathPattern: '^/search' },
    })
    const form = await open('override.html')
    const taken = await form.submit({ client: CLIENT, effect: '9/m', pathPattern: '^/search' })
    assert.equal(taken.status, 400)
    assert.match(taken.text, new RegExp(`<a href="override\\.html\\?id&#x3D;${id}">Open that override</a>`))
  })

  test('what a block or nothing refuses is not raised: the page of the client says why', async (t) => {
    const { client, rules, refuse, raise } = await start(t, provider)
    const nothing = await raise()
    assert.match(nothing.address, /^client\.html\?client=user%3A7&/)
    assert.match(nothing.words, /No limit refused it in the last day that an override can raise\./)
    await refuse(3)
    await client.rateLimitOverride.create({ data: { client: CLIENT, effect: 'deny' } })
    await rules.reload()
    assert.match((await raise()).words, /The block of user:7 takes precedence: end that first\./)
  })

  test('the default limit is raised on all paths, and lowers no rule', async (t) => {
    const { refuse, raise } = await start(t, provider)
    await refuse(3, { policy: 'default', ruleName: '', path: '/' })
    await refuse(1)
    const { address } = await raise()
    const query = new URLSearchParams(address.split('?')[1])
    assert.deepEqual([query.get('effect'), query.get('pathPattern')], ['10/m', ''])
  })
})

test('viewers may not raise, and no form is for a client that overrides cannot name', async (t) => {
  const viewer = await start(t, 'sqlite', 'viewer')
  assert.equal((await viewer.get(RAISE)).status, 403)
  const operator = await start(t, 'sqlite')
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
