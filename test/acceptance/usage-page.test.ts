/** The page of usage, its CSV, and the usage on the page of a client, as a browser without JavaScript sees them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pluginParts } from '../../src/plugin/parts.js'
import { unescapeHtml } from '../support/client-forms.js'
import { openForms } from '../support/staff-forms.js'
import { charge } from '../support/usage.js'

const HOSTILE = '<script>alert(1)</script>\u202e'

/** Returns `<name> <amount> <requests>` of each row. */
function listed(html: string): string[] {
  const [table = ''] = /<table class="shares"[\s\S]*?<\/table>/.exec(html) ?? []
  const rows = table.matchAll(
    /<bdi>(.*?)<\/bdi>[\s\S]*?data-label="Amount">(.*?)<[\s\S]*?data-label="Requests">(.*?)</g,
  )
  return [...rows].map((row) => row.slice(1).join(' '))
}

test('a viewer sees a month by client, day and month, page by page, and no client writes HTML', async (t) => {
  const { get, app, clock } = await openForms(t, 'sqlite', 'viewer')
  const { usage } = pluginParts(app)
  const atMs = clock.now()
  for (let client = 0; client < 101; client++) {
    usage?.record(charge({ client: `user:${client}`, amount: 5_000 - client, atMs }))
  }
  usage?.record(charge({ client: `header:x-api-key:${HOSTILE}`, amount: 1_234_567, atMs }))
  usage?.record(charge({ client: 'user:7', amount: 3, atMs: atMs - 86_400_000 }))
  usage?.record(charge({ client: 'user:7', amount: 3, unit: 'content-bytes', atMs: Date.UTC(2025, 11, 31) }))

  const { status, text } = await get('usage.html')
  assert.equal(status, 200)
  assert.match(text, /<h2 id="usage">1,734,520 tokens in 2026-01, by 103 requests<\/h2>/)
  assert.equal(listed(text).length, 100)
  assert.match(listed(text)[0] ?? '', /^header:x-api-key:&lt;script&gt;alert\(1\)&lt;\/script&gt;.* 1,234,567 1$/)
  assert.equal(listed(text)[1], 'user:0 5,000 1')
  assert.doesNotMatch(text, /<script>alert|\u202e/)
  const [, next = ''] = /href="(usage\.html\?[^"]+)" rel="next"/.exec(text) ?? []
  assert.deepEqual(listed((await get(unescapeHtml(next))).text), ['user:99 4,901 1', 'user:100 4,900 1'])

  const days = await get('usage.html?unit=tokens&by=day&client=user:7')
  assert.deepEqual(listed(days.text), ['2026-01-14 3 1', '2026-01-15 4,993 1'])
  const months = await get('usage.html?unit=content-bytes&by=month&since=2025-06&until=2026-01')
  assert.deepEqual(listed(months.text), ['2025-12 3 1'])
  const csv = await get('usage.csv?unit=tokens&by=day&client=user:7')
  assert.equal(csv.text, 'day,unit,amount,requests\r\n2026-01-14,tokens,3,1\r\n2026-01-15,tokens,4993,1\r\n')
  assert.equal(csv.headers['content-disposition'], 'attachment; filename="ratelimit_usage_tokens_2026-01.csv"')

  const client = await get('client.html?client=user:7')
  assert.match(client.text, /<h2 id="usage">Its use by day<\/h2>[\s\S]*2026-01-15<[\s\S]*>tokens<[\s\S]*>4,993</)
  assert.doesNotMatch((await get('client.html?client=user:7000')).text, /Its use by day/)
})

test('a client without usage is told apart, and wrong addresses are told how to be written', async (t) => {
  const { get } = await openForms(t, 'sqlite', 'viewer')
  assert.match((await get('usage.html?unit=tokens&client=user:1')).text, /No usage of this client in 2026-01/)
  for (const query of ['since=2026-13', 'since=2026-02&until=2026-01', 'since=<b>']) {
    const { status, text } = await get(`usage.html?${query}`)
    assert.equal(status, 200)
    assert.match(text, /aria-invalid="true"[\s\S]*Write months such as 2026-11/, query)
    assert.doesNotMatch(text, /<b>"/)
  }
  for (const query of ['unit=tokens&cursor=abc', 'unit=tokens&by=day&since=1970-01&until=2026-01']) {
    assert.equal((await get(`usage.html?${query}`)).status, 400, query)
  }
  for (const query of [
    '',
    'unit=tokens&since=2026-13',
    'unit=Tokens',
    'unit=tokens&by=day&since=1970-01&until=2026-01',
  ]) {
    assert.equal((await get(`usage.csv?${query}`)).status, 400, query)
  }
})

test('a server that cannot write usage says so', async (t) => {
  const { get, app, database } = await openForms(t, 'sqlite', 'viewer', { usage: ['tokens'], eventBuffer: 1 })
  const { usage } = pluginParts(app)
  await database.log.execute(
    `CREATE TRIGGER away BEFORE INSERT ON rate_limit_usage BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
  )
  usage?.record(charge())
  assert.match((await get('usage.html')).text, /<b>1 sum of usage was lost<\/b> by this server/)
})
