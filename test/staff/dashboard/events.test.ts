/** The logbook of the dashboard. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { RateLimitOptions } from '../../../src/index.js'
import { unescapeHtml, withoutTimes } from '../../support/client-forms.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'
import { logEvents, logRows } from '../../support/events.js'
import { long } from '../../support/long.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

const MINUTE_MS = 60_000

async function start(t: TestContext, provider: Provider, plugin: RateLimitOptions = {}, staff = {}) {
  const started = await startWithStaff(t, provider, { isStaff: () => true, ...staff }, plugin)
  const { client } = started.app.smartRateLimit
  const open = async (address: string, status = 200) => {
    const answer = await started.request(DASHBOARD + address)
    assert.equal(answer.status, status, answer.text.slice(-500))
    return answer.text.slice(answer.text.indexOf('<main'))
  }
  return { ...started, client, open, now: started.clock.now() }
}

/** The rows of the page, as readers see them. */
function rowsOf(html: string): string[] {
  const [, body = ''] = /<tbody role="rowgroup">(.*?)<\/tbody>/s.exec(html) ?? []
  return body
    .split('</tr>')
    .map((row) =>
      row
        .replace(/<span class="unseen">.*?<\/span>/g, '')
        .replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((row) => row !== '')
}

/** The address of the link of a text. */
function linkOf(html: string, text: string): string | undefined {
  const [, href] = new RegExp(`<a [^>]*href="([^"]*)"[^>]*>${text}`).exec(html) ?? []
  return href && unescapeHtml(href)
}

forEachDatabase((provider) => {
  test('why a customer was refused yesterday at 14:00 is found by its client and a range', async (t) => {
    const { open, client, now, request } = await start(t, provider)
    const [yesterday, morning] = [now - 22 * 60 * MINUTE_MS, now - 60 * MINUTE_MS]
    const customer = {
      key: 'rule:items:user:1007',
      client: 'user:1007',
      ruleName: 'items',
      path: '/items',
      method: 'POST',
    }
    await logEvents(client, { ...customer, allowed: 1, blocked: 1, atMs: yesterday })
    await logEvents(client, { ...customer, allowed: 3, atMs: morning })
    await logEvents(client, { key: 'ip:203.0.113.7', allowed: 1, blocked: 1, atMs: yesterday })
    await logEvents(client, { key: 'ip:203.0.113.7', denied: 1, atMs: morning })

    const all = await open('events.html')
    assert.equal(rowsOf(all).length, 8)
    assert.match(rowsOf(all)[0] ?? '', /^2026-01-15 11:00:00 GET \/ ip:203\.0\.113\.7 Denied default Why\?$/)
    for (const spelled of ['user:1007', '1007']) {
      const found = await open(
        `events.html?${new URLSearchParams({ client: spelled, since: '2026-01-14T14:00Z', until: '2026-01-14 15:00' })}`,
      )
      assert.deepEqual(rowsOf(found), [
        '2026-01-14 14:00:00 POST /items user:1007 Refused 2 of 1 items Why?',
        '2026-01-14 14:00:00 POST /items user:1007 Allowed 1 of 1 items Why?',
      ])
      assert.match(linkOf(found, '<bdi>user:1007') ?? '', /^client\.html\?client=user%3A1007/)
      const why = await request(`${DASHBOARD}${linkOf(found, 'Why\\?')}`)
      assert.match(withoutTimes(why.text), /At 2026-01-14 14:00:00 UTC this request was refused: 2 of 1 by items\./)
    }
    const refused = async (query: string) => rowsOf(await open(`events.html?${query}`)).map((row) => row.split(' ')[4])
    assert.deepEqual(await refused('outcome=refused'), ['ip:203.0.113.7', 'ip:203.0.113.7', 'user:1007'])
    assert.deepEqual(await refused('client=203.0.113.0/24&outcome=denied'), ['ip:203.0.113.7'])
    assert.deepEqual(await refused('rule=items&method=post&path=/items&outcome=over_limit'), ['user:1007'])
    assert.match(
      await open('client.html?client=user:1007'),
      /href="events\.html\?client&#x3D;user%3A1007&amp;days&#x3D;7"/,
    )

    // What is relative to now is in links as it is in UTC.
    const hour = await open('events.html?since=23h&until=14:30')
    assert.equal(rowsOf(hour).length, 4)
    assert.match(hour, /name="since" value="2026-01-14 13:00"/)
    assert.match(hour, /class="chip" href="events\.html\?until&#x3D;2026-01-14T14%3A30Z/)
  })

  test('a request of several rules shows all of them, and is found by each', async (t) => {
    const { open, database, now } = await start(t, provider)
    const rules = '+items:-team:-"><b>'
    await logRows(database, [
      { timestampMs: now, policy: 'team', ruleName: 'team', allowed: false, outcome: 'over_limit', rules },
      { timestampMs: now - 1, policy: 'other' },
    ])
    for (const rule of ['items', 'team', '"><b>']) {
      const found = await open(`events.html?${new URLSearchParams({ rule })}`)
      assert.deepEqual(rowsOf(found), [
        '2026-01-15 12:00:00 GET / ip:203.0.113.7 Refused 1 of 5 team Why? also items , &quot;&gt;&lt;b&gt; (refused)',
      ])
    }
    assert.equal(rowsOf(await open('events.html?rule=tea')).length, 0)
    assert.match(await open('client.html?client=ip:203.0.113.7'), /also <bdi>items<\/bdi>, <bdi>&quot;/)
  })

  test('links go to older events and back, each once, while others are logged', async (t) => {
    const { open, client, now } = await start(t, provider)
    for (let minute = 1; minute <= 60; minute++) {
      await logEvents(client, {
        key: 'ip:203.0.113.7',
        path: `/${minute}`,
        allowed: 1,
        blocked: 1,
        atMs: now - minute * MINUTE_MS,
      })
    }
    const paths = (html: string) => rowsOf(html).map((row) => Number(/GET \/(\d+)/.exec(row)?.[1]))
    const seen: number[] = []
    let page = await open('events.html?method=GET')
    assert.equal(linkOf(page, 'Newer'), undefined)
    for (let pages = 1; ; pages++) {
      seen.push(...paths(page))
      await logEvents(client, { key: 'ip:203.0.113.7', path: '/0', allowed: 1, atMs: now })
      const older = linkOf(page, 'Older')
      if (older === undefined) break
      assert.match(older, /method=GET&before=/)
      assert.ok(pages < 5)
      page = await open(older)
    }
    assert.deepEqual(
      seen,
      Array.from({ length: 120 }, (_, place) => Math.floor(place / 2) + 1),
    )
    page = await open(linkOf(page, 'Newer') ?? '')
    assert.deepEqual(paths(page), seen.slice(50, 100))
    page = await open(linkOf(page, 'Newer') ?? '')
    assert.deepEqual(paths(page), seen.slice(0, 50))
    page = await open(linkOf(page, 'Newer') ?? '')
    assert.deepEqual(paths(page), [0, 0, 0, ...seen.slice(0, 47)])
    assert.equal(linkOf(page, 'Newer'), undefined)
    assert.match(linkOf(page, 'Older') ?? '', /before=/)
  })

  test('the events of a filter and a range are exported as CSV, whatever clients wrote, and a wrong filter is answered', async (t) => {
    const { open, client, request, database, now } = await start(t, provider)
    await logEvents(client, { key: 'user:8', client: 'user:8', path: '/else', allowed: 2, atMs: now - MINUTE_MS })
    const hostile = ['/a;=cmd()', '/b","=cmd()', '/c;"=cmd()', '=d', '/e\t+cmd()', '/f;＝cmd()']
    await logRows(
      database,
      hostile.map((path, index) => ({
        timestampMs: now - MINUTE_MS * (index + 2),
        client: 'user:=7;@x',
        key: 'user:=7;@x',
        path,
        method: 'GET',
      })),
    )
    const csv = await request(`${DASHBOARD}events.csv?${new URLSearchParams({ client: 'user:=7;@x' })}`)
    assert.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
    assert.equal(csv.headers['content-disposition'], 'attachment; filename="ratelimit_events.csv"')
    const [header, ...lines] = csv.text.trimEnd().split('\r\n')
    assert.equal(header, 'time,client,method,path,outcome,policy,count,limit,key,weight')
    assert.deepEqual(
      lines.map((line) => /,GET,(.*),allowed,/.exec(line)?.[1]),
      [`"/a;'=cmd()"`, '"/b"",""=cmd()"', `"/c;""'=cmd()"`, `"'=d"`, `"/e\t'+cmd()"`, `"/f;'＝cmd()"`],
    )
    for (const line of lines) assert.match(line, /^2026-01-15T1\d:\d\d:00.000Z,"user:=7;'@x",/)
    const since = new Date(now - 3 * MINUTE_MS).toISOString()
    const ranged = await request(`${DASHBOARD}events.csv?${new URLSearchParams({ client: 'user:=7;@x', since })}`)
    assert.equal(ranged.text.trimEnd().split('\r\n').length, 3)
    assert.equal((await request(`${DASHBOARD}events.csv?since=never`)).status, 400)
    const page = await open('events.html?path=/else')
    assert.equal(linkOf(page, 'Export these events'), 'events.csv?path=%2Felse&days=7&bom=1')
    assert.match(
      linkOf(await open('client.html?client=user:8'), 'Export these events') ?? '',
      /^events\.csv\?client=user%3A8&since=/,
    )
  })

  test('an export ends at its bound, the newest first', long(), async (t) => {
    const { request, database, now } = await start(t, provider)
    await logRows(
      database,
      Array.from({ length: 10_020 }, (_, index) => ({
        timestampMs: now - 1000 - index,
        client: 'user:7',
        key: 'user:7',
      })),
    )
    const { text } = await request(`${DASHBOARD}events.csv?client=user:7`)
    const lines = text.trimEnd().split('\r\n').slice(1)
    assert.equal(lines.length, 10_000)
    const times = lines.map((line) => line.split(',')[0] ?? '')
    assert.equal(new Set(times).size, 10_000)
    assert.deepEqual(times, times.toSorted().reverse())
  })
})

test('a wrong field keeps what was typed, and says how to write it', async (t) => {
  const { open } = await start(t, 'sqlite')
  for (const [query, field] of [
    ['since=someday', 'since'],
    ['until=2026-02-31', 'until'],
    ['since=2026-01-15&until=2026-01-14', 'until'],
    ['outcome=lost', 'outcome'],
  ] as const) {
    const page = await open(`events.html?${query}&client=%22%3E%3Cscript%3E`, 400)
    assert.match(page, new RegExp(`name="${field}"[^>]*aria-invalid="true" aria-describedby="error-${field}"`), query)
    assert.match(page, new RegExp(`id="error-${field}">(?:Write|Choose)`))
    assert.match(page, /name="client" value="&quot;&gt;&lt;script&gt;"/)
    assert.doesNotMatch(page, /<tbody|<script/)
  }
})

test('positions that somebody made up show the newest events, or those that there are', async (t) => {
  const { open, client, now } = await start(t, 'sqlite')
  await logEvents(client, { key: 'ip:203.0.113.7', allowed: 2, atMs: now - MINUTE_MS })
  for (const cursor of ['x', '1', '1.', 'NaN.1', `${'9'.repeat(16)}.1`, '1.1 OR 1=1']) {
    for (const name of ['before', 'after']) {
      assert.equal(rowsOf(await open(`events.html?${name}=${encodeURIComponent(cursor)}`)).length, 2, cursor)
    }
  }
  assert.equal(rowsOf(await open('events.html?before=0.0')).length, 0)
  assert.equal(rowsOf(await open('events.html?after=-1.-1')).length, 2)
})

test('pages without events say the next step', async (t) => {
  const logged = await start(t, 'sqlite')
  const filtered = await logged.open('events.html?client=user:7')
  assert.match(filtered, /No request matches this filter.*href="events\.html\?days&#x3D;7">clear it/s)
  const blocked = await start(t, 'sqlite', { logEvents: 'blocked' })
  assert.match(await blocked.open('events.html'), /Only refusals are logged/)
  const pseudonyms = await start(t, 'sqlite', {
    privacy: { addresses: 'pseudonym' },
    hashSecret: 'a secret of the host, long enough',
  })
  assert.match(await pseudonyms.open('events.html?client=203.0.113.0/24', 400), /The log has no networks here/)
})

test('the end of a search that read a part of the log leads on', async (t) => {
  const { open, client, now } = await start(t, 'sqlite')
  await logEvents(client, { key: 'user:7', path: '/old', allowed: 1, atMs: now - 90 * MINUTE_MS })
  await logEvents(client, { key: 'user:7', path: '/new', allowed: 21_000, atMs: now - 60 * MINUTE_MS })
  const page = await open('events.html?path=/old')
  assert.match(
    withoutTimes(page),
    /No such request so far.*Searched back to 2026-01-15 11:00:00 UTC: only a part of the log\./s,
  )
  const found = await open(linkOf(page, 'Search older') ?? '')
  assert.equal(rowsOf(found).length, 1)
  assert.equal(linkOf(found, 'Search older'), undefined)
})

test('viewers see the events, and strangers do not', async (t) => {
  const viewer = await start(t, 'sqlite', {}, { isStaff: () => 'viewer' })
  await viewer.open('events.html')
  const stranger = await start(t, 'sqlite', {}, { isStaff: () => false })
  assert.equal((await stranger.request(`${DASHBOARD}events.html`)).status, 403)
  assert.equal((await stranger.request(`${DASHBOARD}events.csv`)).status, 403)
})
