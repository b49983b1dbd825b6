/** Staff watch an incident: who is refused, by what, what came of a change, and what happens now. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import { countStatements } from '../support/count-statements.js'
import { logEvents } from '../support/events.js'
import { DASHBOARD, startWithStaff } from '../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const MINUTE_MS = 60_000
const SCRAPERS = [10, 11, 12].map((last) => `203.0.113.${last}`)
const CUSTOMER = 'user:1007'

/** Three addresses of one network, each refused by two rules, and a customer who was refused more than any of them. */
async function logIncident(client: RateLimitClient): Promise<void> {
  const atMs = NOW_MS - 5 * MINUTE_MS
  for (const address of SCRAPERS) {
    const its = { client: `ip:${address}`, atMs }
    await logEvents(client, { ...its, key: `rule:search:${address}`, ruleName: 'search', path: '/search', blocked: 3 })
    await logEvents(client, { ...its, key: `rule:login:${address}`, ruleName: 'login', path: '/login', blocked: 2 })
  }
  const customer = { client: CUSTOMER, key: `rule:search:${CUSTOMER}`, ruleName: 'search', path: '/search' }
  await logEvents(client, { ...customer, allowed: 4, blocked: 6, atMs })
  await logEvents(client, { key: 'ip:198.51.100.1', client: 'ip:198.51.100.1', allowed: 40, atMs })
}

async function start(t: Parameters<typeof startWithStaff>[0]) {
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => true }, { useDynamicRules: true })
  const page = async (query = '') => {
    const { status, text } = await started.request(DASHBOARD + query.replace('./', ''))
    assert.equal(status, 200, query)
    return text.replaceAll('&#x3D;', '=').replaceAll('&amp;', '&')
  }
  return { ...started, page, client: started.app.smartRateLimit.client }
}

const section = (text: string, id: string) =>
  new RegExp(`aria-labelledby="${id}">(.*?)</section>`, 's').exec(text)?.[1] ?? ''
const rowsOf = (text: string, id: string) =>
  Array.from(
    section(text, id).matchAll(
      /<th scope="row"[^>]*>\s*(?:<div class="who">\s*)?<a class="code" href="([^"]*)" title="([^"]*)"/g,
    ),
  )
const namesOf = (text: string, id: string) => rowsOf(text, id).map(([, , name]) => name)
const figures = (text: string) =>
  Object.fromEntries(
    Array.from(
      text.matchAll(/<dt>(.*?)<\/dt><dd>([^<]*?)(?: <span class="share">([^<]*)<\/span>)?<\/dd>/g),
      (found) => {
        const [, label = '', value, share] = found
        return [label.replace(/<svg.*<\/svg>|<[^>]*>/g, ''), share === undefined ? value : `${value} (${share})`]
      },
    ),
  )

test('clients are ranked over all rules; three of one network are one row, before a customer', async (t) => {
  const { page, client } = await start(t)
  await logIncident(client)
  const text = await page('?minutes=15')
  const [network, customer] = rowsOf(text, 'clients')

  assert.deepEqual(namesOf(text, 'clients'), ['ip:203.0.113.0/24', CUSTOMER])
  assert.equal(customer?.[1], `client.html?client=user%3A1007&minutes=15`)
  assert.equal(network?.[1], 'client.html?client=ip%3A203.0.113.0%2F24&minutes=15')
  for (const address of SCRAPERS) assert.ok(section(text, 'clients').includes(`client.html?client=ip%3A${address}`))
  assert.match(section(text, 'clients'), /<bdi>search<\/bdi>.*<bdi>login<\/bdi>.*<bdi>\/search<\/bdi>/s)

  const opened = await page(String(network?.[1]))
  for (const address of SCRAPERS) assert.ok(opened.includes(`client.html?client=ip%3A${address}`))
})

test('a network of many clients leaves room for others, under a filter too', async (t) => {
  const { page, client } = await start(t)
  const atMs = NOW_MS - MINUTE_MS
  for (let last = 1; last <= 30; last++) {
    await logEvents(client, {
      key: `ip:192.0.2.${last}`,
      client: `ip:192.0.2.${last}`,
      blocked: 3,
      path: '/login',
      atMs,
    })
  }
  await logEvents(client, { key: 'ip:198.51.100.1', client: 'ip:198.51.100.1', blocked: 1, path: '/login', atMs })
  for (const filter of ['', '&path=/login']) {
    const text = await page(`?days=1${filter}`)
    assert.deepEqual(namesOf(text, 'clients'), ['ip:192.0.2.0/24', 'ip:198.51.100.1'], filter)
    assert.match(section(text, 'clients'), /12 of its clients, counted together/)
    assert.match(await page(`client.html?client=ip:192.0.2.0/24&days=1`), /<section[^>]*members.*?(?:<tr.*?){20}/s)
  }
})

test('a link ranks by all requests, another one lists networks, and both stay with the filter', async (t) => {
  const { page, client } = await start(t)
  await logIncident(client)

  assert.equal(namesOf(await page('?days=1&by=requests'), 'clients')[0], 'ip:198.51.100.1')
  const networks = await page('?days=1&by=requests&group=network&rule=')
  assert.deepEqual(namesOf(networks, 'clients'), ['ip:198.51.100.0/24', 'ip:203.0.113.0/24'])
  const letThrough = { client: 'ip:203.0.113.10', key: 'rule:login:203.0.113.10', ruleName: 'login', path: '/login' }
  await logEvents(client, { ...letThrough, allowed: 7, atMs: NOW_MS - MINUTE_MS })
  const filtered = await page('?days=1&group=network&path=/login')
  assert.deepEqual(namesOf(filtered, 'clients'), ['ip:203.0.113.0/24'])
  const requests = (text: string) => /data-label="Requests">([^<]*)</.exec(section(text, 'clients'))?.[1]
  assert.equal(requests(filtered), '13', 'also those that were let through')
  assert.match(filtered, /href="\.\/\?days=1&path=%2Flogin&by=requests&group=network">Most requests</)
  assert.match(filtered, /href="\.\/\?days=1&path=%2Flogin">Clients</)
  assert.match(filtered, /<input type="hidden" name="group" value="network">/)
})

test('an address, a user and a network find their clients under every rule', async (t) => {
  const { page, client } = await start(t)
  await logIncident(client)
  const table: Record<string, string> = {
    '203.0.113.10': '5',
    'ip:203.0.113.10': '5',
    '203.0.113.0/24': '15',
    '1007': '10',
    'user:1007': '10',
    'rule:login:203.0.113.10': '2',
    '203.0.113.99': '0',
    '203.0.113.1': '0',
    '0.0.0.0/0': '55',
    '2001:db8::/32': '0',
    '%ED%A0%80': '0',
    '%00': '65',
  }
  for (const [key, total] of Object.entries(table)) {
    assert.equal(figures(await page(`?days=1&key=${key}`)).Requests ?? '0', total, key)
  }
  assert.equal(figures(await page('?days=1&key=203.0.113.10&path=/login')).Requests, '2')
})

test('denials are counted apart, and do not raise the block rate', async (t) => {
  const { page, client, request } = await start(t)
  const its = { key: 'ip:192.0.2.1', client: 'ip:192.0.2.1', atMs: NOW_MS - MINUTE_MS }
  await logEvents(client, { ...its, allowed: 9, blocked: 1 })
  const before = figures(await page('?days=1'))
  await logEvents(client, { ...its, denied: 30 })
  const text = await page('?days=1')
  const { Requests, Allowed, Refused: over, Denied, 'Would be refused': would } = figures(text)

  assert.deepEqual([before.Refused, before.Denied], ['1 (10.0%)', undefined])
  assert.deepEqual([Requests, Allowed, over, Denied, would], ['40', '9 (22.5%)', '1 (2.5%)', '30 (75.0%)', undefined])
  assert.match(text, /<a class="series"[^>]*><svg[^>]*>.*?<\/svg>Denied</)
  assert.match(section(text, 'paths'), /data-label="Rate">10\.0%</)
  assert.match(text, /aria-label="40 requests, 1 \(10\.0%\) of them refused, 30 denied\./)
  assert.match(text, /<rect class="part denied"/)
  assert.match(section(text, 'paths'), /data-label="Denied">30</)
  assert.match(section(text, 'clients'), /data-label="Denied">30</)
  // The seed's reports know nothing of denials.
  const csv = await request(`${DASHBOARD}offenders.csv?days=1`)
  assert.equal(csv.text, 'key,blocked_count\r\nip:192.0.2.1,1\r\n')
  const clients = await request(`${DASHBOARD}clients.csv?minutes=15`)
  assert.equal(clients.headers['content-disposition'], 'attachment; filename="ratelimit_clients.csv"')
  assert.equal(clients.text, 'client,requests,over_limit,would_be,denied\r\nip:192.0.2.1,40,1,0,30\r\n')
  assert.match(await page('?minutes=15&by=requests'), /href="clients\.csv\?minutes=15&by=requests&bom=1" download>/)
})

test('a change of a rule is a mark on the time axis, and the rule shows what came before and after it', async (t) => {
  const { page, client, clock } = await start(t)
  const rule = { key: 'rule:login:192.0.2.1', client: 'ip:192.0.2.1', ruleName: 'login', path: '/login' }
  const { id } = await client.rateLimitRule.create({ data: { name: 'login', pathPattern: '/login', rate: '5/m' } })
  const changedMs = Date.now()
  // The history has the time of the database.
  clock.advance(changedMs + 10 * MINUTE_MS - clock.now())
  await logEvents(client, { ...rule, allowed: 2, blocked: 8, atMs: changedMs - 2 * MINUTE_MS })
  await logEvents(client, { ...rule, allowed: 9, blocked: 1, atMs: changedMs + 2 * MINUTE_MS })
  await client.rateLimitOverride.create({ data: { client: 'ip:192.0.2.9', effect: 'deny' } })
  const text = await page('?minutes=60')

  assert.match(text, /<a class="mark-of-change"[^>]*><title>[^<]* UTC: Rule login created<\/title>/)
  assert.match(text, /<bdi>Override ip:192\.0\.2\.9 created<\/bdi>/)
  assert.match(section(text, 'rules'), /before <b>8 of 10 refused<\/b>, after <b>1 of 10 refused<\/b>/)
  assert.ok(id > 0)
})

test('an override shows what its client requested before and after it, also one of a network, and one that is over', async (t) => {
  const { page, client, clock } = await start(t)
  for (const name of ['user:7', 'ip:198.51.100.0/24']) {
    await client.rateLimitOverride.create({ data: { client: name, effect: 'deny' } })
  }
  await client.rateLimitOverride.deleteMany({ where: { client: 'user:7' } })
  const changedMs = Date.now()
  // The history has the time of the database.
  clock.advance(changedMs + 10 * MINUTE_MS - clock.now())
  const [beforeMs, afterMs] = [changedMs - 2 * MINUTE_MS, changedMs + 2 * MINUTE_MS]
  for (const name of ['ip:198.51.100.1', 'ip:198.51.100.2', 'user:7']) {
    const its = { key: `rule:search:${name.replace('ip:', '')}`, client: name, ruleName: 'search', path: '/search' }
    await logEvents(client, { ...its, allowed: 1, blocked: 3, atMs: beforeMs })
    await logEvents(client, { ...its, denied: 5, atMs: afterMs })
    await logEvents(client, { ...its, key: name, ruleName: '', path: '/', allowed: 1, atMs: afterMs })
  }
  const effects = (text: string) =>
    Array.from(
      text.matchAll(
        /<bdi>([^<]*)<\/bdi><\/a> <span class="faint">(\w+) .*?<\/span> \d+ minutes before <b>(.*?)<\/b>, after <b>(.*?)<\/b>/g,
      ),
      ([, ...its]) => its,
    )

  assert.deepEqual(effects(await page('?minutes=60')), [
    ['user:7', 'deleted', '3 of 4 refused', '0 of 6 refused, 5 denied'],
    ['ip:198.51.100.0/24', 'created', '6 of 8 refused', '0 of 12 refused, 10 denied'],
  ])
  assert.deepEqual(effects(await page('?minutes=60&path=/search&key=user:7'))[1], [
    'ip:198.51.100.0/24',
    'created',
    '6 of 8 refused',
    '0 of 10 refused, 10 denied',
  ])
})

test('windows of minutes have a bar a minute; any other number of minutes is none', async (t) => {
  const { page, client } = await start(t)
  await logIncident(client)
  const bars = (text: string) => text.match(/class="column-of-bars/g)?.length

  assert.equal(bars(await page('?minutes=15')), 16)
  assert.equal(bars(await page('?minutes=60&days=30')), 61)
  assert.match(await page('?minutes=15'), /in the last 15 minutes\.<\/p>/)
  for (const minutes of ['7', '-15', '1e9', '15.5', 'abc', '', '%00']) {
    assert.match(await page(`?minutes=${minutes}`), /in the last 7 days\.<\/p>/, minutes)
  }
})

test('pages that follow share one report, a page that is loaded has its own, and none is read for nobody', async (t) => {
  const { page, client, clock } = await start(t)
  await logIncident(client)
  await page('?days=1')
  await logEvents(client, { key: 'ip:192.0.2.1', atMs: NOW_MS - MINUTE_MS, blocked: 1 })
  const counted = countStatements()
  t.after(() => counted.stop())
  // Every report has one of these.
  const reports = () => counted.of('AS standing')
  const followers = await Promise.all(Array.from({ length: 20 }, () => page('?days=1&follow=1')))

  assert.deepEqual(new Set(followers.map((text) => figures(text).Requests)), new Set(['65']))
  clock.advance(600_000)
  assert.deepEqual(reports(), [])
  assert.equal(figures(await page('?days=1&follow=1')).Requests, '66')
  await logEvents(client, { key: 'ip:192.0.2.1', atMs: NOW_MS - MINUTE_MS, blocked: 1 })
  assert.equal(figures(await page('?days=1')).Requests, '67')
})

test('a page follows unless the address says no, and without JavaScript where it says yes', async (t) => {
  const { page, request } = await start(t)
  const [usual, off, on] = [await page('?days=1'), await page('?days=1&live=off'), await page('?days=1&live=on')]

  assert.match(usual, /data-wait="\d+" data-source="\.\/\?days=1&follow=1"/)
  assert.match(usual, /<noscript><a href="\.\/\?days=1&live=on">/)
  assert.doesNotMatch(usual, /http-equiv="refresh"/)
  assert.doesNotMatch(off, /data-wait="\d|http-equiv="refresh"/)
  assert.match(off, /href="\.\/\?days=1&live=on">Follow live</)
  assert.match(on, /<noscript><meta http-equiv="refresh" content="\d+"><\/noscript>/)
  assert.match(on, /href="\.\/\?days=1&live=off"[^>]*>Stop following</)
  const script = await request(`${DASHBOARD}live.js`)
  assert.deepEqual([script.status, script.headers['content-type']], [200, 'text/javascript; charset=utf-8'])
})

test('an empty log has a page for every window, list and filter', async (t) => {
  const { page } = await start(t)
  for (const query of [
    '',
    '?minutes=15',
    '?group=network',
    '?by=requests',
    '?key=203.0.113.0/24',
    '?key=x&by=requests',
  ]) {
    assert.match(await page(query), /<h2 id="nothing">/, query)
  }
})

test('very many clients with hostile names are a list of twenty, and text', async (t) => {
  const { page, client } = await start(t)
  const names = Array.from({ length: 300 }, (_, place) => `<b>${place}</b>"'{{page}}\u202e${'W'.repeat(200)}`)
  for (const name of names) await logEvents(client, { key: name, client: `key:${name}`, blocked: 1, atMs: NOW_MS - 1 })
  for (const query of [
    '?days=1',
    '?days=1&by=requests',
    '?days=1&method=GET',
    `?days=1&key=${encodeURIComponent(names[0] ?? '')}`,
  ]) {
    const text = await page(query)
    assert.ok(rowsOf(text, 'clients').length <= 20 && rowsOf(text, 'clients').length > 0, query)
    assert.doesNotMatch(text, /<b>\d+<\/b>"/)
  }
})
