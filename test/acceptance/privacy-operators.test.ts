/** An operator's day where addresses are not stored: pseudonyms and networks are found, explained, blocked and previewed. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type AddressForm, createAddressPrivacy } from '../../src/clients/address-privacy.js'
import { databaseFor } from '../../src/database/database.js'
import { addToken } from '../../src/staff/api/token-table.js'
import { startWithApi } from '../support/api-app.js'
import { act, keepCookies, noticeOf, type OpenedPage, openClient } from '../support/client-forms.js'
import { eventually } from '../support/eventually.js'
import { ratelimit } from '../support/scripts.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const HASH_SECRET = 'a secret of the host, long enough'
const BAD = '203.0.113.66'
const NEIGHBOUR = '203.0.113.67'
const NETWORK = 'ip:203.0.113.0/24'
const SHOP = { name: 'shop', pathPattern: '^/shop', rate: '1/m' }
const PSEUDONYM = /ip:~[0-9a-f]{32}/

async function start(t: TestContext, addresses: AddressForm) {
  const plugin = { useDynamicRules: true, privacy: { addresses }, hashSecret: HASH_SECRET }
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => ({ actor: 'alice', role: 'admin' }) }, plugin)
  const { app, request, statuses } = started
  assert.deepEqual(await statuses(5, '/shop', { from: BAD }), [200, 200, 429, 429, 429])
  assert.deepEqual(await statuses(1, '/shop', { from: NEIGHBOUR }), [200])
  const { analytics, client, explain } = app.smartRateLimit
  const env = {
    RATELIMIT_DATABASE_URL: started.database.url,
    RATELIMIT_HASH_SECRET: HASH_SECRET,
    RATELIMIT_PRIVACY_ADDRESSES: addresses,
    RATELIMIT_USE_DYNAMIC_RULES: 'true',
  }
  return {
    ...started,
    analytics,
    explain,
    overrides: client.rateLimitOverride,
    page: async (path: string) => (await request(DASHBOARD + path)).text,
    /** Returns the client whose page a search leads to. */
    async search(text: string) {
      const { location } = (await request(`${DASHBOARD}search.html?${new URLSearchParams({ q: text })}`)).headers
      return location && new URLSearchParams(location.split('?')[1]).get('client')
    },
    command: (...args: string[]) => ratelimit(args, { env }),
    async do(page: OpenedPage, action: 'block' | 'end', fields: Readonly<Record<string, string>> = {}) {
      const answer = await act(request, page, action, fields)
      assert.equal(answer.status, 303, answer.text)
      const { location = '' } = answer.headers
      const client = new URLSearchParams(location.split('?')[1]).get('client') ?? ''
      return openClient(request, client, keepCookies(page.cookie, answer))
    },
  }
}

test('a pseudonym is found by its address, explained, blocked and ended like any other client', async (t) => {
  const its = await start(t, 'pseudonym')
  const { analytics, app, explain, overrides, request, statuses, command } = its
  const [top] = await analytics.getTopClients()
  const bad = top?.client ?? ''
  assert.match(bad, PSEUDONYM)
  const dashboard = await its.page('?minutes=60')
  assert.match(dashboard, PSEUDONYM)
  assert.doesNotMatch(dashboard, /group=network/, 'there are no networks')
  assert.doesNotMatch(await its.page('?group=network'), /<h2 id="clients">Networks/)
  for (const text of [BAD, `ip:${BAD}`, `[::ffff:${BAD}]:443`, bad, bad.slice('ip:'.length)]) {
    assert.equal(await its.search(text), bad, text)
  }
  assert.equal(await its.search('203.0.113.0/24'), undefined, 'and no search for one')

  const detail = await analytics.getClient({ client: `ip:${BAD}` })
  assert.deepEqual([detail.client, detail.requests, detail.over_limit], [bad, 5, 3])
  const byKey = await analytics.getOffenderDetail({ key: `ip:${BAD}` })
  assert.deepEqual([byKey.key, byKey.blocked], [bad, 3])
  const page = await openClient(request, bad)
  assert.match(page.text, /used 5, 0 left|5 of 2/, 'the standing is that of the pseudonym')
  for (const ip of [BAD, bad.slice('ip:'.length)]) {
    const { decided_by, limits } = await explain({ path: '/shop', ip })
    assert.equal(decided_by, 'default')
    assert.equal(limits.find(({ policy }) => policy === 'default')?.count, 5)
  }

  const blocked = await its.do(page, 'block', { for: '1h' })
  assert.deepEqual(noticeOf(blocked), ['success', 'Denied until 2026-01-15 13:00:00 UTC.'])
  assert.deepEqual(
    (await overrides.findMany()).map(({ client }) => client),
    [bad],
  )
  assert.deepEqual(await statuses(1, '/', { from: BAD }), [403])
  assert.deepEqual(await statuses(1, '/', { from: NEIGHBOUR }), [200])
  assert.equal((await analytics.getClient({ client: `ip:${BAD}` })).overrides.length, 1)
  assert.deepEqual(noticeOf(await its.do(blocked, 'end'))?.[0], 'success')
  await app.smartRateLimit.reset(`ip:${BAD}`)
  assert.deepEqual(await statuses(1, '/', { from: BAD }), [200])

  await overrides.create({ data: { client: `ip:${NEIGHBOUR}`, effect: 'allow' } })
  const { matched, would_refuse, uncovered } = await app.smartRateLimit.rules.preview(SHOP, { hours: 1 })
  assert.deepEqual([matched, would_refuse, uncovered.count], [5, 4, 0], 'an override of an address takes its request')

  await app.smartRateLimit.events.flush()
  const { stdout: tail } = await command('tail', '--client', BAD)
  assert.equal(tail.trim().split('\n').length, 7)
  assert.match((await command('top', '--within', '366d')).stdout, PSEUDONYM)
  const { status } = await command('override', 'add', bad.slice('ip:'.length), 'deny')
  assert.equal(status, 0)
  assert.deepEqual(
    (await overrides.findMany({ where: { effect: 'deny' } })).map(({ client }) => client),
    [bad],
  )
  const removed = await command('override', 'remove', BAD)
  assert.match(removed.stdout, /Removed 1 override/)
  await command('override', 'add', bad, 'deny')
  const explained = await command('explain', '--path', '/shop', '--ip', BAD, '--json')
  assert.equal(JSON.parse(explained.stdout).decided_by, 'override')
})

test('a shortened client says that it is a network, and blocking it blocks and names the network', async (t) => {
  const its = await start(t, 'truncated')
  const { analytics, app, request, statuses, overrides } = its
  const [top] = await analytics.getTopClients()
  assert.deepEqual([top?.client, top?.requests, top?.over_limit], [NETWORK, 6, 3])
  assert.equal(await its.search(BAD), NETWORK)
  const page = await openClient(request, NETWORK)
  assert.match(page.text, /This is a network:/)
  const blocked = await its.do(page, 'block', { for: '1h' })
  assert.deepEqual(noticeOf(blocked), [
    'success',
    'Denied until 2026-01-15 13:00:00 UTC, with all addresses of 203.0.113.0/24.',
  ])
  assert.deepEqual(
    (await overrides.findMany()).map(({ client }) => client),
    [NETWORK],
  )
  for (const from of [BAD, NEIGHBOUR]) assert.deepEqual(await statuses(1, '/', { from }), [403])
  await its.do(blocked, 'end')
  await assert.rejects(app.smartRateLimit.reset(NETWORK), /of a network, whose clients have counters of their own/)
  await app.smartRateLimit.reset(`ip:${BAD}`)
  assert.deepEqual(await statuses(1, '/', { from: BAD }), [200])
  const preview = await app.smartRateLimit.rules.preview(SHOP, { hours: 1 })
  assert.match(JSON.stringify(preview), /the log has networks, whose clients the preview counts together/)
  assert.equal(preview.would_refuse, 5)
})

for (const addresses of ['pseudonym', 'truncated'] as const) {
  test(`with addresses as ${addresses} no page shows a whole address that nobody typed`, async (t) => {
    const { app, clock, overrides, page, statuses } = await start(t, addresses)
    const { client } = app.smartRateLimit
    await client.rateLimitRule.create({
      data: { name: 'sign-in', pathPattern: '^/sign-in', rate: '2/m', banAfter: 1, banFor: '2h' },
    })
    await statuses(4, '/sign-in', { from: BAD })
    await eventually('the ban is written', async () => (await overrides.count()) === 1)
    await addToken(databaseFor(client), { name: 'ci', role: 'viewer', expiresAtMs: null }, clock.now())
    await app.smartRateLimit.events.flush()
    const { id } = await overrides.findFirstOrThrow()
    const addressesShown: string[] = []
    for (const path of [
      ...[
        '',
        'events.html',
        'counters.html',
        'usage.html',
        'overrides.html',
        'tokens.html',
        'changes.html',
        'rules.html',
      ],
      ...['alerts.html', 'exchange.html', 'explain.html', 'counters.html?q=sign-in', `override.html?id=${id}`],
    ]) {
      const text = await page(path)
      assert.match(text, /<h1/, path)
      if (text.includes(BAD) || text.includes(NEIGHBOUR)) addressesShown.push(path)
    }
    assert.deepEqual(addressesShown, [])
    assert.match(await page('counters.html'), PSEUDONYM)
    assert.match(await page('overrides.html'), PSEUDONYM)
    assert.match(await page('tokens.html'), /ci/)
  })
}

test('staff who type an address find the override of its pseudonym, and its history', async (t) => {
  const privacy = { addresses: 'pseudonym' } as const
  const { app, call } = await startWithApi(t, 'sqlite', {
    plugin: { privacy, hashSecret: HASH_SECRET },
  })
  const { rateLimitOverride, rateLimitRule } = app.smartRateLimit.client
  const pseudonym = createAddressPrivacy({ ...privacy, secret: HASH_SECRET, ipv6Subnet: 64 }).toCounted(`ip:${BAD}`)
  await rateLimitOverride.create({ data: { client: pseudonym, effect: 'deny' } })
  await rateLimitOverride.create({ data: { client: 'ip:2001:db8::1', effect: 'deny' } })
  await rateLimitRule.create({ data: SHOP })
  const found = async (path: string) => (await call('GET', path, { as: 'viewer' })).json.items.length
  for (const typed of [`ip:${BAD}`, BAD, pseudonym, 'ip:2001:db8:0:0::1', 'ip:2001:DB8::1', '2001:db8::1']) {
    const client = encodeURIComponent(typed)
    assert.deepEqual(
      [await found(`/overrides?client=${client}`), await found(`/history?name=${client}`)],
      [1, 1],
      typed,
    )
    assert.equal((await app.smartRateLimit.rules.history(typed)).length, 1, typed)
  }
  assert.deepEqual([await found('/history?name=shop'), await found('/overrides?client=ip:203.0.113.67')], [1, 0])
})
