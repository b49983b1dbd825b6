/** The table by path: paths of one route are one row that opens. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { unescapeHtml } from '../../support/client-forms.js'
import { logEvents } from '../../support/events.js'
import { DASHBOARD, startWithStaff } from '../../support/staff-app.js'

async function start(t: TestContext) {
  const started = await startWithStaff(t, 'sqlite', { isStaff: () => true }, {}, (app) => {
    app.get('/api/items/:id', async () => 'an item')
  })
  const { client } = started.app.smartRateLimit
  const atMs = started.clock.now() - 60_000
  const request = (path: string, allowed: number, blocked = 0) =>
    logEvents(client, { key: 'ip:192.0.2.1', client: 'ip:192.0.2.1', path, allowed, blocked, atMs })
  const rows = async (query = '') => {
    const { text } = await started.request(`${DASHBOARD}?days=1${query}`)
    const [, section = ''] = /aria-labelledby="paths">(.*?)<\/section>/s.exec(text) ?? []
    return section
      .split('<tr role="row" data-key="')
      .slice(1)
      .map((html) => ({
        name: unescapeHtml(/^([^"]*)/.exec(html)?.[1] ?? ''),
        requests: /data-label="Requests">([^<]*)/.exec(html)?.[1],
        links: Array.from(html.matchAll(/<a class="code" href="([^"]*)"/g), ([, href = '']) => unescapeHtml(href)),
        html,
      }))
  }
  return { ...started, client, request, rows }
}

test('paths of one route are one row with summed counts, which opens to its paths', async (t) => {
  const { request, rows } = await start(t)
  await request('/api/items/17', 5)
  await request('/api/items/18', 2, 3)
  await request('/api/items', 4)
  await request('/wp-login.php', 1)
  const [items, list, unknown] = await rows()

  assert.deepEqual([items?.name, items?.requests], ['/api/items/:id', '10'])
  assert.deepEqual(items?.links, ['./?days=1&path=%2Fapi%2Fitems%2F17', './?days=1&path=%2Fapi%2Fitems%2F18'])
  assert.match(items?.html ?? '', /5 requests, 3 refused/)
  assert.deepEqual([list?.name, list?.links], ['/api/items', ['./?days=1&path=%2Fapi%2Fitems']])
  assert.deepEqual([unknown?.name, unknown?.links], ['/wp-login.php', ['./?days=1&path=%2Fwp-login.php']])
})

test('of many paths those that are not listed are found by their beginning, where each is by itself', async (t) => {
  const { request, rows } = await start(t)
  for (let id = 0; id < 12; id++) await request(`/api/items/${id}`, 1)
  const [items] = await rows()
  assert.equal(items?.links.length, 11)
  assert.equal(items?.links.at(-1), './?days=1&path=%2Fapi%2Fitems%2F')

  const each = await rows('&path=/api/items/')
  assert.equal(each.length, 12)
  assert.ok(each.every(({ name, links }) => links.length === 1 && name.startsWith('/api/items/')))
})

test('paths that clients make up are text, and are by themselves where no route is theirs', async (t) => {
  const { request, rows } = await start(t)
  for (const path of ['/api/items/<b>"x', '/api/items/%', '/{{page}}', '__proto__', '/api/items/a/b']) {
    await request(path, 1)
  }
  const shown = await rows()
  assert.deepEqual(shown.map(({ name }) => name).toSorted(), [
    '/api/items/%',
    '/api/items/:id',
    '/api/items/a/b',
    '/{{page}}',
    '__proto__',
  ])
  for (const { html } of shown) assert.doesNotMatch(html, /<b>"/)
})
