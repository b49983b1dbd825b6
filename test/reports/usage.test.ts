/** The report of usage: by client, day and month, page by page. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createAddressPrivacy } from '../../src/clients/address-privacy.js'
import { insertUsageSql, type UsageSum, usageValues } from '../../src/log/usage/usage-table.js'
import { UsageReports } from '../../src/reports/usage.js'
import { createAnalytics, type UsageOptions, type UsageRow } from '../../src/reports.js'
import { openDatabase } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type Provider } from '../support/databases.js'

const NOW_MS = Date.UTC(2026, 10, 24, 12)
const SECRET = 'a secret of the host, long'

/** What was charged, as `user:7 2026-11-24 100`, with the policy and the requests behind where they are others. */
async function openReport(t: TestContext, provider: Provider, charged: readonly string[], unit = 'tokens') {
  const { client, database } = await openDatabase(t, provider)
  const rows = charged.map((text) => {
    const [name = '', day = '', amount, policy = 'llm', requests = 1] = text.split(' ')
    const firstMs = Date.parse(`${day}T12:00Z`)
    const sum: UsageSum = { firstMs, client: name, unit, policy, amount: Number(amount), requests: Number(requests) }
    return usageValues(sum)
  })
  await database.log.execute(insertUsageSql(database.log.dialect), [JSON.stringify(rows)])
  const clock = fakeClock(NOW_MS)
  const analytics = createAnalytics({ database: client, clock })
  return {
    database,
    clock,
    analytics,
    read: (options: Partial<UsageOptions> = {}) => analytics.getUsage({ unit: 'tokens', ...options }),
    /** Reads all pages. */
    async pages(options: Partial<UsageOptions>): Promise<(readonly UsageRow[])[]> {
      const pages: (readonly UsageRow[])[] = []
      for (let cursor: string | undefined; ; ) {
        const page = await analytics.getUsage({ unit: 'tokens', ...options, cursor })
        pages.push(page.rows)
        if (page.cursor === null) return pages
        cursor = page.cursor
      }
    },
  }
}

async function textOf(lines: AsyncIterable<string>): Promise<string> {
  let text = ''
  for await (const line of lines) text += line
  return text
}

forEachDatabase((provider) => {
  test('the present month by client has those with the highest amount first, over all policies', async (t) => {
    const { read } = await openReport(t, provider, [
      'user:1 2026-11-01 100',
      'user:1 2026-11-30 20 other 3',
      'user:2 2026-11-24 119',
      'user:2 2026-10-31 500',
      'user:3 2026-11-02 119',
      'user:3 2026-12-01 500',
    ])
    assert.deepEqual(await read(), {
      rows: [
        { client: 'user:1', amount: 120, requests: 4 },
        { client: 'user:2', amount: 119, requests: 1 },
        { client: 'user:3', amount: 119, requests: 1 },
      ],
      cursor: null,
    })
    assert.deepEqual(await read({ unit: 'content-bytes' }), { rows: [], cursor: null })
  })

  test('sums are exact up to 2^53 - 1, where they stop', async (t) => {
    const most = Number.MAX_SAFE_INTEGER
    const { read } = await openReport(t, provider, [
      `user:1 2026-11-04 ${most}`,
      `user:1 2026-11-05 ${most}`,
      `user:2 2026-11-04 ${most - 6}`,
      'user:2 2026-11-05 5',
      `user:3 2026-11-04 ${most - 6}`,
      'user:3 2026-11-05 4',
    ])
    const range = { since: '2026-11-04T00:00Z', until: '2026-11-06T00:00Z' }
    const page = await read({ ...range, limit: 2 })
    assert.deepEqual(
      page.rows.map(({ amount }) => amount),
      [most, most - 1],
    )
    assert.equal((await read({ ...range, cursor: page.cursor ?? '' })).rows[0]?.amount, most - 2)
    assert.deepEqual((await read({ ...range, by: 'day' })).rows.at(-1), {
      day: '2026-11-05',
      amount: most,
      requests: 3,
    })
  })

  test('days and months follow one another, of all clients and of one', async (t) => {
    const { read } = await openReport(t, provider, [
      'user:1 2026-09-30 1',
      'user:1 2026-10-01 2',
      'user:2 2026-10-01 4',
      'user:2 2026-11-24 8',
    ])
    const range = { since: '2026-09-01T00:00Z', until: '2026-12-01T00:00Z' }
    assert.deepEqual((await read({ ...range, by: 'day' })).rows, [
      { day: '2026-09-30', amount: 1, requests: 1 },
      { day: '2026-10-01', amount: 6, requests: 2 },
      { day: '2026-11-24', amount: 8, requests: 1 },
    ])
    assert.deepEqual((await read({ ...range, by: 'month', client: 'user:2' })).rows, [
      { month: '2026-10', amount: 4, requests: 1 },
      { month: '2026-11', amount: 8, requests: 1 },
    ])
  })

  test('a range that begins or ends within a month or a day has its whole days', async (t) => {
    const days = ['2026-09-29', '2026-09-30', '2026-10-15', '2026-11-01', '2026-11-02', '2026-11-03']
    const { read } = await openReport(
      t,
      provider,
      days.map((day, index) => `user:1 ${day} ${10 ** index}`),
    )
    const amount = async (since: string, until: string, by: 'client' | 'day' | 'month') =>
      (await read({ since, until, by })).rows.reduce((sum, row) => sum + row.amount, 0)
    for (const by of ['client', 'day', 'month'] as const) {
      assert.equal(await amount('2026-09-30T23:59Z', '2026-11-02T00:00Z', by), 1_110)
      assert.equal(await amount('2026-09-30T00:00Z', '2026-11-02T00:01Z', by), 11_110)
      assert.equal(await amount('2026-10-01T00:00Z', '2026-11-01T00:00Z', by), 100)
      assert.equal(await amount('2026-11-02T08:00Z', '2026-11-02T09:00Z', by), 10_000)
    }
    assert.deepEqual(
      (await read({ since: '2026-09-30T00:00Z', until: '2026-11-02T00:00Z', by: 'month' })).rows.map(
        (row) => row.month,
      ),
      ['2026-09', '2026-10', '2026-11'],
    )
  })

  test('pages go on where the last one ended, also among equal amounts, and each client is on one', async (t) => {
    const { pages } = await openReport(
      t,
      provider,
      Array.from(
        { length: 25 },
        (_, index) => `user:${String(index).padStart(2, '0')} 2026-11-05 ${index < 20 ? 7 : 9}`,
      ),
    )
    const found = await pages({ limit: 6 })
    assert.deepEqual(
      found.map((rows) => rows.length),
      [6, 6, 6, 6, 1],
    )
    const clients = found.flat().map(({ client }) => client)
    const sorted = Array.from({ length: 25 }, (_, index) => `user:${String(index).padStart(2, '0')}`)
    assert.deepEqual(clients, [...sorted.slice(20), ...sorted.slice(0, 20)])
    assert.equal((await pages({ limit: 25 })).length, 1)
  })

  test('a cursor of days and months goes on behind them', async (t) => {
    const { pages } = await openReport(t, provider, [
      'a 2026-10-30 1',
      'a 2026-10-31 1',
      'a 2026-11-01 1',
      'b 2026-11-02 1',
    ])
    const range = { since: '2026-10-01T00:00Z', limit: 1 }
    const names = async (by: 'day' | 'month') => (await pages({ ...range, by })).flat().map((row) => row[by])
    assert.deepEqual(await names('day'), ['2026-10-30', '2026-10-31', '2026-11-01', '2026-11-02'])
    assert.deepEqual(await names('month'), ['2026-10', '2026-11'])
  })

  test('an address is found as it is typed, and where the table has its pseudonym or its network', async (t) => {
    for (const addresses of ['pseudonym', 'truncated'] as const) {
      const privacy = createAddressPrivacy({ addresses, secret: SECRET, ipv6Subnet: 64 })
      const { database, clock } = await openReport(t, provider, [
        `${privacy.toLogged('ip:203.0.113.7')} 2026-11-05 7`,
        'ip:198.51.100.1 2026-11-05 9',
      ])
      const reports = new UsageReports(database, clock, privacy)
      for (const client of ['203.0.113.7', 'ip:203.0.113.7']) {
        const { rows } = await reports.page({ unit: 'tokens', client })
        assert.deepEqual(
          rows.map(({ amount }) => amount),
          [7],
        )
      }
    }
  })

  test('the CSV has every client once, by name, and no formula of theirs', async (t) => {
    const names = Array.from({ length: 2_100 }, (_, index) => `user:${String(index).padStart(4, '0')}`)
    const { database, clock } = await openReport(t, provider, [
      ...names.map((name, index) => `${name} 2026-11-05 ${index}`),
      `=HYPERLINK("http://evil.example";"x"),1 2026-11-05 5`,
    ])
    const reports = new UsageReports(database, clock, undefined)
    const [header, first, ...lines] = (await textOf(reports.csv({ unit: 'tokens' }))).split('\r\n')
    assert.equal(header, 'client,unit,amount,requests')
    assert.equal(first, `"'=HYPERLINK(""http://evil.example"";""x""),1",tokens,5,1`)
    assert.deepEqual(lines, [...names.map((name, index) => `${name},tokens,${index},1`), ''])
    const days = await textOf(reports.csv({ unit: 'tokens', by: 'day', client: 'user:0007' }))
    assert.equal(days, 'day,unit,amount,requests\r\n2026-11-05,tokens,7,1\r\n')
  })

  test('the units of a month are those with usage in it', async (t) => {
    const { database, clock, analytics } = await openReport(t, provider, ['a 2026-11-05 1'])
    assert.ok(analytics)
    const row = { firstMs: NOW_MS, client: 'a', policy: 'p', amount: 1, requests: 1 }
    const rows = ['content-bytes', 'rows'].map((unit) => usageValues({ ...row, unit }))
    await database.log.execute(insertUsageSql(database.log.dialect), [JSON.stringify(rows)])
    const reports = new UsageReports(database, clock, undefined)
    assert.deepEqual(await reports.units('2026-11'), ['content-bytes', 'rows', 'tokens'])
    assert.deepEqual(await reports.units('2026-10'), [])
  })

  test('invalid options are refused by name, and made-up cursors too', async (t) => {
    const { read } = await openReport(t, provider, ['a 2026-11-05 1', 'b 2026-11-05 1'])
    const wrong: readonly (readonly [object, RegExp])[] = [
      [{ unit: undefined }, /^Option "unit" is undefined: give at most 30/],
      [{ unit: "x' OR 1=1" }, /"unit" is "x' OR 1=1"/],
      [{ by: 'year' }, /"by" is "year": give client, day, month/],
      [{ limit: 0 }, /"limit" is 0/],
      [{ until: NOW_MS }, /"until" is set without "since"/],
      [{ since: '2026-11-05' }, /"since" is "2026-11-05"/],
      [{ since: 0, by: 'day' }, /give a range of at most 4000 days/],
      ...['', 'x', toCursor(['day', 'a', 1]), toCursor(['client', 'a\0', 1]), toCursor(['client', 'a', 1.5])].map(
        (cursor) => [{ cursor }, /"cursor" is .*: give the cursor of the page before/] as const,
      ),
    ]
    for (const [options, complaint] of wrong) await assert.rejects(read(options), { message: complaint })
    assert.deepEqual(
      (await read({ cursor: toCursor(['client', 'a', 1]) })).rows.map(({ client }) => client),
      ['b'],
    )
  })
})

function toCursor(position: readonly unknown[]): string {
  return Buffer.from(JSON.stringify(position)).toString('base64url')
}
