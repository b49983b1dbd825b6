import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { assertPage } from '../../support/page-tree.js'
import { startWithStaff } from '../../support/staff-app.js'

const KEY = '203.0.113.7'

function start(t: Parameters<typeof startWithStaff>[0], plugin = {}) {
  return startWithStaff(t, 'sqlite', { isStaff: () => true }, plugin)
}

test('a dashboard without offenders and rules says so', async (t) => {
  const { request } = await start(t)
  await request('/')
  assertPage('dashboard-quiet', await request('/ops/dashboard/?days=1'))
  assertPage('dashboard-quiet-networks', await request('/ops/dashboard/?days=1&group=network'), 'clients')
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

  for (const text of [dashboard, offender]) assert.doesNotMatch(text, /(?:href|action|src)="\//)
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

test('a key of characters that no log can hold is a key without events', async (t) => {
  const { request } = await start(t)
  for (const key of ['%00', '%ED%A0%80', '%FF', '%', 'x'.repeat(3000)]) {
    assert.equal(JSON.parse((await request(`/ops/dashboard/offender/?key=${key}`)).text).total, 0)
    assert.equal((await request(`/ops/dashboard/offender.html?key=${key}`)).status, 200)
  }
})

test('an unknown path is a 404 in JSON for programs', async (t) => {
  const { request } = await start(t)
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
