import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { startWithStaff } from '../../support/staff-app.js'

const KEY = '203.0.113.7'

function start(t: Parameters<typeof startWithStaff>[0], plugin = {}) {
  return startWithStaff(t, 'sqlite', { isStaff: () => true }, plugin)
}

test('a dashboard without requests says what to switch on', async (t) => {
  const { request } = await start(t, { logEvents: false })
  const { text } = await request('/ops/dashboard/')

  assert.match(text, /No requests in the last 7 days/)
  assert.match(text, /logEvents: true/)
  assert.match(text, /RATELIMIT_LOG_EVENTS=true/)
  assert.match(text, /<p class="lead" data-part="lead"><\/p>/)
  assert.doesNotMatch(text, /class="figures"/)
})

test('a dashboard without offenders and rules says so', async (t) => {
  const { request } = await start(t)
  await request('/')
  const { text } = await request('/ops/dashboard/?days=1')

  assert.match(text, /No client was refused in the last 24 hours\. <a href="[^"]*by&#x3D;requests">/)
  const networks = await request('/ops/dashboard/?days=1&group=network')
  assert.match(networks.text, /No network was refused .*<a href="[^"]*by&#x3D;requests&amp;group&#x3D;network">/)
  assert.match(
    text,
    /Rules are off on this server\. They apply while useDynamicRules, or RATELIMIT_USE_DYNAMIC_RULES, is true/,
  )
  assert.match(text, /<p class="lead"[^>]*>.*No request was refused in the last 24 hours\.<\/p>/)
})

test('the numbers of the dashboard are those of its window, and none is zero', async (t) => {
  const { request, statuses } = await start(t)
  await statuses(3, '/', { from: KEY })
  const { text } = await request('/ops/dashboard/?days=1')
  const numbers = Array.from(text.matchAll(/<dt>(.*?)<\/dt><dd>(\d+)/g), ([, label = '', count]) => [
    label.replace(/<[^>]*>/g, ''),
    count,
  ])

  assert.deepEqual(numbers.slice(0, 3), [
    ['Requests', '3'],
    ['Allowed', '2'],
    ['Refused', '1'],
  ])
  assert.doesNotMatch(text, /data-label="Denied"|Last 24 hours/)
})

test('the window in use is offered among the others', async (t) => {
  const { request } = await start(t)
  const { text } = await request('/ops/dashboard/?days=14')
  const offered = Array.from(text.matchAll(/<button name="\w+" value="(\d+)"( aria-current="true")?>/g))

  assert.deepEqual(
    offered.map(([, days, current]) => [days, current !== undefined]),
    [
      ['15', false],
      ['60', false],
      ['1', false],
      ['7', false],
      ['14', true],
      ['30', false],
      ['90', false],
    ],
  )
})

test('links are relative and keep the window, so that a proxy may rewrite paths', async (t) => {
  const { request, statuses } = await start(t)
  await statuses(3, '/', { from: KEY })
  const dashboard = (await request('/ops/dashboard/?days=30')).text
  const offender = (await request(`/ops/dashboard/offender.html?key=ip:${KEY}&days=30`)).text

  assert.match(dashboard, /href="offenders\.csv\?days&#x3D;30"/)
  assert.match(dashboard, /href="client\.html\?client&#x3D;ip%3A203\.0\.113\.7&amp;days&#x3D;30"/)
  assert.match(offender, /href="\.\/\?days&#x3D;30"/)
  assert.match(offender, /href="offender\/\?key&#x3D;ip%3A203\.0\.113\.7&amp;days&#x3D;30"/)
  for (const text of [dashboard, offender]) assert.doesNotMatch(text, /(?:href|action|src)="\//)
})

test('the page of a client shows the outcomes of its requests', async (t) => {
  const { request, statuses } = await start(t)
  await statuses(3, '/login', { from: KEY })
  const { status, text } = await request(`/ops/dashboard/offender.html?key=ip:${KEY}`)

  assert.equal(status, 200)
  assert.match(text, /<title>Counter ip:203\.0\.113\.7 · Rate limits<\/title>/)
  assert.match(text, /<h1>Counter <bdi class="code">ip:203\.0\.113\.7</)
  assert.match(text, /href="client\.html\?client&#x3D;ip%3A203\.0\.113\.7&amp;days&#x3D;7">All about this client</)
  assert.match(text, /<dt>First seen in the last 7 days</)
  assert.match(text, /Latest 3 requests/)
  assert.match(
    text,
    /decision refused"[^>]*>Refused <span class="unseen">– why\?<\/span><\/a><\/td>\s*<td[^>]*>3 of 2</,
  )
  assert.match(
    text,
    /decision allowed"[^>]*>Allowed <span class="unseen">– why\?<\/span><\/a><\/td>\s*<td[^>]*>2 of 2</,
  )
  assert.match(text, /<time datetime="2026-01-15T12:00:00\.000Z">2026-01-15 12:00:00 UTC<\/time>/)
})

test('the page of a key names the policy of each request, also where an override decided', async (t) => {
  const { app, request, statuses } = await start(t, { useDynamicRules: true })
  await app.smartRateLimit.client.rateLimitOverride.create({ data: { client: `ip:${KEY}`, effect: '1/m' } })
  await statuses(2, '/login', { from: KEY })
  const { text } = await request(`/ops/dashboard/offender.html?key=ip:${KEY}`)
  assert.match(text, /1 of 1<\/td>\s*<td[^>]*><span class="code" title="override"><bdi>override</)
})

test('a request over a limit that does not block is shown as such', async (t) => {
  const { request, statuses } = await start(t, { middleware: { defaultRate: '0/m', block: false } })
  await statuses(1, '/', { from: KEY })
  const { text } = await request(`/ops/dashboard/offender.html?key=ip:${KEY}`)

  assert.match(text, /Latest request</)
  assert.match(text, /decision would-be-refused"[^>]*>Would be refused </)
  assert.match(text, /This key was not refused in the last 7 days\./)
})

test('the page of an unknown client says that there is nothing', async (t) => {
  const { request } = await start(t)
  const { status, text } = await request('/ops/dashboard/offender.html?key=nobody')

  assert.equal(status, 200)
  assert.match(text, /The event log has no requests of this key/)
})

test('a key of characters that no log can hold is a key without events', async (t) => {
  const { request } = await start(t)
  for (const key of ['%00', '%ED%A0%80', '%FF', '%', 'x'.repeat(3000)]) {
    assert.equal(JSON.parse((await request(`/ops/dashboard/offender/?key=${key}`)).text).total, 0)
    assert.equal((await request(`/ops/dashboard/offender.html?key=${key}`)).status, 200)
  }
})

test('the page without a key is a 400 that leads on', async (t) => {
  const { request } = await start(t)
  const { status, headers, text } = await request('/ops/dashboard/offender.html')

  assert.equal(status, 400)
  assert.match(String(headers['content-type']), /^text\/html/)
  assert.match(text, /missing \?key&#x3D; parameter/)
  assert.match(text, /href="\.\/">Go to the dashboard/)
})

test('an unknown path is a 404: a page for browsers, JSON for programs', async (t) => {
  const { request } = await start(t)
  const page = await request('/ops/dashboard/nothing', { headers: { accept: 'text/html,*/*' } })
  assert.deepEqual([page.status, page.headers['content-type']], [404, 'text/html; charset=utf-8'])

  const json = await request('/ops/dashboard/nothing')
  assert.deepEqual([json.status, json.text], [404, '{"error":"There is no such page."}'])
})

test('the one style sheet is allowed by its hash, and the one script is a file', async (t) => {
  const { request } = await start(t)
  const { text, headers } = await request('/ops/dashboard/')
  const [, css = ''] = /<style>(.*)<\/style>/s.exec(text) ?? []
  const hash = createHash('sha256').update(css).digest('base64')

  assert.ok(css.length > 1000)
  assert.equal(
    headers['content-security-policy'],
    `default-src 'none'; style-src 'sha256-${hash}'; script-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  )
  assert.deepEqual(text.match(/<script[^>]*>[^<]*/g), ['<script src="live.js" defer>'])
  assert.doesNotMatch(text, / style="| on[a-z]+="|(?<!<code>curl -i )https?:\/\//)
})
