/** The dashboard and the page of a client show any time that their address names. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { logEvents } from '../../support/events.js'
import { long } from '../../support/long.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
/** Yesterday at 14:00. */
const AT_MS = Date.UTC(2026, 0, 14, 14)
const RANGE = 'since=2026-01-14T14:00Z&until=2026-01-14T15:00Z'
const CLIENT = 'ip:203.0.113.7'

async function start(t: TestContext) {
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => true })
  const { client } = started.app.smartRateLimit
  // Around the range, at its first and last moment, and in the minute before the present.
  await logEvents(client, { key: CLIENT, path: '/before', blocked: 7, atMs: AT_MS - 1 })
  await logEvents(client, { key: CLIENT, path: '/login', blocked: 2, allowed: 3, atMs: AT_MS })
  await logEvents(client, { key: CLIENT, path: '/login', denied: 1, atMs: AT_MS + HOUR_MS - 1 })
  await logEvents(client, { key: 'ip:198.51.100.1', path: '/items', allowed: 4, atMs: AT_MS + MINUTE_MS })
  await logEvents(client, { key: CLIENT, path: '/after', blocked: 9, atMs: AT_MS + HOUR_MS })
  await logEvents(client, { key: CLIENT, path: '/now', allowed: 5, atMs: NOW_MS - MINUTE_MS / 2 })
  const text = async (address: string) => {
    const answer = await started.request(DASHBOARD + address)
    assert.equal(answer.status, 200, address)
    return answer.text
      .replace(/<style>.*<\/style>/s, '')
      .replaceAll('&#x3D;', '=')
      .replaceAll('&amp;', '&')
  }
  return { ...started, text }
}

test('a range in the address holds for every number, table and export of the dashboard', async (t) => {
  const { text } = await start(t)
  const page = await text(`?${RANGE}&days=30`)
  assert.match(page, /<p class="lead"[^>]*>.* in the range 2026-01-14 14:00–15:00 UTC\.<\/p>/)
  assert.match(page, /<dt>Requests<\/dt><dd>10<\/dd>/)
  assert.match(page, /<p class="compared">Compared with the same length of time before</)
  for (const absent of ['/before', '/after', '/now']) assert.ok(!page.includes(`title="${absent}"`), absent)
  assert.match(page, /aria-label="10 requests, 2 \(22\.2%\) of them refused, 1 denied\. The most in a minute/)
  assert.equal((page.match(/class="column-of-bars"/g) ?? []).length, 60)
  assert.match(await text(`clients.csv?${RANGE}`), /ip:203\.0\.113\.7,6,2,0,1/)
  assert.match(await text(`offenders.csv?${RANGE}`), /\nip:203\.0\.113\.7,2\r\n$/)
  const detail = JSON.parse(await text(`offender/?key=${CLIENT}&${RANGE}`))
  assert.deepEqual([detail.days, detail.total, detail.blocked], [1 / 24, 5, 2])
  assert.match(await text(`offender.html?key=${CLIENT}&${RANGE}`), /<dd>5<\/dd>/)
  assert.match(await text(`clients.html?${RANGE}`), /in the range 2026-01-14 14:00–15:00 UTC/)
  assert.match(page, /href="clients.csv\?since=2026-01-14T14%3A00Z&until=2026-01-14T15%3A00Z&bom=1"/)
})

test('a range in the address holds for the page of a client', async (t) => {
  const { text } = await start(t)
  const page = await text(`client.html?client=${CLIENT}&${RANGE}`)
  assert.match(page, /<dt>Requests<\/dt><dd>6<\/dd>/)
  assert.match(page, /Latest 6 requests/)
  assert.match(page, /In the range 2026-01-14 14:00–15:00 UTC first seen <time datetime="2026-01-14T14:00:00.000Z"/)
  for (const absent of ['/before', '/after', '/now']) assert.ok(!page.includes(`title="${absent}"`), absent)
  // Its forms and links keep it.
  assert.match(page, /<input type="hidden" name="since" value="2026-01-14T14:00Z">/)
  assert.match(page, /href="\.\/\?since=2026-01-14T14%3A00Z&until=2026-01-14T15%3A00Z"/)
})

test('a range that has ended says nothing of the present', async (t) => {
  const { text } = await start(t)
  assert.match(await text('?days=7'), /Near a limit now/)
  const past = await text(`?${RANGE}`)
  for (const absent of [/Near a limit now/, /id="live"/, /so-far/, /so far/]) {
    assert.doesNotMatch(past, absent)
  }
  const client = await text(`client.html?client=${CLIENT}&${RANGE}&live=on`)
  for (const absent of [/id="live"/, /http-equiv="refresh"/, /used, \d+ left/, /<span class="faint">now/]) {
    assert.doesNotMatch(client, absent)
  }
  assert.match(client, /at its last request, <time datetime="2026-01-14T14:59:59.999Z"/)
  // One that goes on follows.
  const open = await text('?since=2026-01-14T14:00Z')
  for (const present of [/Near a limit now/, /id="live"/, /so far/]) assert.match(open, present)
})

test('each bar leads to its hours, its minutes, or its events', async (t) => {
  const { text } = await start(t)
  const bars = async (address: string) =>
    Array.from((await text(address)).matchAll(/<a href="([^"]*)" tabindex="-1"/g), ([, href = '']) =>
      decodeURIComponent(href),
    )
  const hours = await bars('?since=2026-01-14&until=2026-01-15&method=GET')
  assert.equal(hours.length, 24)
  assert.equal(hours[14], './?since=2026-01-14T14:00Z&until=2026-01-14T15:00Z&method=GET')
  const minutes = await bars(`?${RANGE}&key=${CLIENT}&path=/login`)
  assert.equal(minutes[59], `events.html?client=${CLIENT}&path=/login&since=2026-01-14T14:59Z&until=2026-01-14T15:00Z`)
  const events = await text(minutes[59] ?? '')
  assert.match(events, /2026-01-14 14:59:59/)
  assert.equal((events.match(/title="\/login"/g) ?? []).length, 1)
  assert.equal((await bars('?days=30'))[29], './?since=2026-01-14T00:00Z&until=2026-01-15T00:00Z')
  const ofClient = await bars(`client.html?client=${CLIENT}&since=2026-01-14&until=2026-01-15`)
  assert.equal(ofClient[0], `client.html?client=${CLIENT}&since=2026-01-14T00:00Z&until=2026-01-14T01:00Z`)
  const [first = ''] = await bars(`client.html?client=${CLIENT}&${RANGE}`)
  assert.equal(((await text(first)).match(/title="\/login"/g) ?? []).length, 5)
  const [ofNetwork = ''] = await bars(`client.html?client=ip:203.0.113.0/24&${RANGE}`)
  assert.equal(((await text(ofNetwork)).match(/title="\/login"/g) ?? []).length, 5)
})

test('the form takes what people type, and what is none is said at its field', async (t) => {
  const { text } = await start(t)
  const typed = await text('?since=14:00&until=15:00')
  assert.match(typed, /<b class="time-shown"[^>]*>2026-01-14 14:00–15:00 UTC<\/b>/)
  assert.match(typed, /name="since" value="2026-01-14 14:00"/)
  assert.match(await text('?since=-22h&until=21h'), />2026-01-14 14:00–15:00 UTC<\/b>/)
  assert.match(
    typed,
    /<a href="\.\/\?since=2026-01-14T13%3A00Z&until=2026-01-14T14%3A00Z"><span[^>]*>←<\/span> Earlier/,
  )
  assert.match(typed, /<a href="\.\/\?since=2026-01-14T15%3A00Z&until=2026-01-14T16%3A00Z">Later/)
  assert.match(typed, /<a href="\.\/\?days=7">Last 7 days<\/a>/)

  const wrong = await text('?since=14.00&until=15:00&days=30')
  assert.match(wrong, /<button name="days" value="30" aria-current="true">/)
  assert.match(wrong, /<details class="fold time-form" name="fold" open>/)
  assert.match(wrong, /name="since" value="14\.00"[^>]* aria-describedby="time-wrong" aria-invalid="true"/)
  assert.match(wrong, /role="alert">Write it as 2026-11-24 14:00, 14:00, yesterday 14:00, or 2h for two hours ago\.</)
  assert.match(wrong, /name="until" value="15:00"/)
})

test('hostile ranges are answered, and are as if they were not there', long(), async (t) => {
  const { text, request } = await start(t)
  const hostile = [
    'since=+275760-09-13T00:00Z',
    'since=NaN&until=Infinity',
    'since=-9999999d',
    'since=0000-01-01T00:00Z',
    'since=2026-01-14T15:00Z&until=2026-01-14T14:00Z',
    'since=9999-12-31T23:59Z',
    `since=${'9'.repeat(3_000)}`,
    'since=%00&until=%ff',
    'since=<script>alert(1)</script>',
    'since[]=1',
    'until=2026-01-14',
  ]
  for (const query of hostile) {
    const page = await text(`?${query}`)
    assert.match(page, /<button name="days" value="7" aria-current="true">/, query)
    assert.ok(!page.includes('<script>alert'))
    for (const address of [
      `client.html?client=${CLIENT}`,
      `offender/?key=${CLIENT}`,
      'clients.csv?',
      'offenders.csv?',
    ]) {
      assert.equal((await request(`${DASHBOARD}${address}&${query}`)).status, 200, `${address}&${query}`)
    }
  }
  // The last one of a repeated parameter, and of a long range the last year.
  assert.match(await text(`?since=x&${RANGE}`), /<b class="time-shown"[^>]*>2026-01-14 14:00–15:00 UTC</)
  assert.match(await text('?since=1970-01-01'), />since 2025-01-15 12:00 UTC<\/b>/)
})

test('only refused: tables list what was refused, the most first', async (t) => {
  const { text } = await start(t)
  const all = await text(`?${RANGE}`)
  assert.match(all, /title="\/items"/)
  assert.match(all, /<a href="\.\/\?[^"]*only=refused"[^>]*>Only refused/)
  const refused = await text(`?${RANGE}&only=refused&by=requests`)
  assert.match(refused, /title="\/login"/)
  assert.doesNotMatch(refused, /title="\/items"|ip:198\.51\.100\.1/)
  assert.match(refused, /Clients with the most refused requests/)
  assert.match(refused, /Only refused<\/a>/)
  const client = await text(`client.html?client=${CLIENT}&${RANGE}&only=refused`)
  assert.match(client, /Latest 3 refused requests/)
  assert.match(
    client,
    /href="events\.html\?client=[^"]*&outcome=refused&since=2026-01-14T14%3A00Z&until=2026-01-14T14%3A01Z"/,
  )
  assert.match(refused, /href="events\.html\?outcome=refused&since=2026-01-14T14%3A00Z&until=2026-01-14T14%3A01Z"/)
  assert.match(client, /<dt>Requests<\/dt><dd>6<\/dd>/)
  assert.doesNotMatch(await text(`client.html?client=${CLIENT}&days=1&only=refused`), /title="\/now"/)
})

test('the legend hides and shows the series of the chart, whose table keeps them', async (t) => {
  const { text } = await start(t)
  const drawn = async (query: string) => {
    const [chart = ''] = /<svg class="plot".*?<\/svg>/s.exec(await text(query)) ?? []
    return [...new Set(Array.from(chart.matchAll(/class="part ([^"]+)"/g), ([, outcome]) => outcome))].toSorted()
  }
  assert.deepEqual(await drawn(`?${RANGE}`), ['allowed', 'denied', 'refused'])
  assert.deepEqual(await drawn(`?${RANGE}&show=denied,allowed`), ['allowed', 'denied'])
  assert.deepEqual(await drawn(`?${RANGE}&show=nothing`), ['allowed', 'denied', 'refused'])
  assert.deepEqual(await drawn(`?${RANGE}&only=refused`), ['denied', 'refused'])
  assert.deepEqual(await drawn(`client.html?client=${CLIENT}&${RANGE}&show=denied`), ['denied'])
  const page = await text(`?${RANGE}&show=over_limit,denied`)
  assert.match(page, /<a class="series" href="[^"]*&show=denied" title="Hide in the chart">/)
  assert.match(page, /<a class="series hidden-series" href="[^"]*&show=over_limit%2Cdenied%2Callowed" title="Show/)
  assert.match(page, /aria-label="10 requests/)
})
