/** The page of a rule: what may be typed, what is said of a wrong field, the preview, and what each role sees. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unescapeHtml } from '../../support/client-forms.js'
import { logRows } from '../../support/events.js'
import type { Answer } from '../../support/http-client.js'
import { openForms } from '../../support/staff-forms.js'

const LOGIN = { name: 'login', pathPattern: '^/login', rate: '5/m' }

/** Returns the sentences at wrong fields, by the names of these. */
function problems({ text }: Answer): Record<string, string> {
  const found = text.matchAll(/<p class="problem" id="error-(\w+)">([^<]*)<\/p>/g)
  return Object.fromEntries([...found].map(([, name, sentence = '']) => [name, readable(sentence)]))
}

function readable(html: string): string {
  return html
    .replaceAll('&quot;', '"')
    .replaceAll('&#x27;', "'")
    .replaceAll('&#x3D;', '=')
    .replaceAll('&lt;', '<')
    .replaceAll('&amp;', '&')
}

/** Returns the headings of the groups that are folded. */
function folded({ text }: Answer): string[] {
  return [...text.matchAll(/<details class="group">\s*<summary><h2>([^<]+)</g)].map(([, title = '']) => title)
}

test('a rule is saved as a person types it: with blanks, upper case, lists and lengths', async (t) => {
  const { app, clock, get, submit } = await openForms(t, 'sqlite')
  const typed = {
    ...LOGIN,
    name: ' login ',
    rate: ' 5 / MIN ',
    method: 'get post',
    key: 'IP + Header: X-Api-Key',
    counts: '401 403',
    endsAt: '2 hours',
    priority: ' 1 000 ',
  }
  const saved = await submit('rule.html', typed)
  assert.deepEqual([saved.status, problems(saved)], [303, {}])
  const rule = await app.smartRateLimit.client.rateLimitRule.findUniqueOrThrow({ where: { name: 'login' } })
  const { rate, method, key, counts, endsAt, priority } = rule
  assert.deepEqual(
    { rate, method, key, counts, endsAt: endsAt?.getTime(), priority },
    {
      rate: '5/min',
      method: 'GET,POST',
      key: 'ip+header:X-Api-Key',
      counts: '401,403',
      endsAt: clock.now() + 2 * 3_600_000,
      priority: 1000,
    },
  )
  // What the form shows saves the same row.
  const form = await get('rule.html?named=login')
  assert.match(form.text, /name="endsAt" value="2026-01-15 14:00"/)
  assert.equal((await submit('rule.html', { ...typed, name: 'again', endsAt: '2026-01-15 14:00' })).status, 303)
})

test('a wrong field has one sentence that says how to write it, from what was typed where that is clear', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  const cases: readonly (readonly [fields: Record<string, string>, expected: Record<string, string>])[] = [
    [{ rate: '5 per minute' }, { rate: 'Write it as 5/m.' }],
    [{ rate: '1,000 requests every 30 seconds' }, { rate: 'Write it as 1000/30s.' }],
    [{ rate: '5 a minute and 100 per hour' }, { rate: 'Write it as 5/m, 100/h.' }],
    [{ rate: 'many' }, { rate: 'Invalid rate "many": it has no "/". Write it as 100/m.' }],
    [{ rate: '' }, { rate: 'It is missing: write one such as 100/m.' }],
    [{ name: '/login' }, { name: 'Write it as login.' }],
    [{ name: 'default' }, { name: 'Write it as default-rule.' }],
    [{ method: '*' }, { method: 'Write it as ALL.' }],
    [{ key: 'ip, user' }, { key: 'Write it as ip+user.' }],
    [
      { banAfter: '5', banFor: '2 hours or so' },
      { banFor: '"2 hours or so" is not a valid duration. Write it as 2h.' },
    ],
    [{ endsAt: 'tomorrow' }, { endsAt: '"tomorrow" is not a valid moment. Write it as 2h, or 2027-01-31 12:00.' }],
    [{ group: '2nd Team!' }, { group: 'Write it as nd-team.' }],
    [
      { group: '+' },
      {
        group: '"+" is not a valid group. Write it as organisation.',
      },
    ],
    [{ priority: 'high' }, { priority: 'It must be an integer between -2147483647 and 2147483647.' }],
    [
      { cost: '7' },
      { cost: 'It is 7, more than the rate ever allows. Give at most 5, or a rate with a higher count.' },
    ],
  ]
  for (const [fields, expected] of cases) {
    const refused = await submit('rule.html', { ...LOGIN, ...fields })
    assert.deepEqual([refused.status, problems(refused)], [400, expected], JSON.stringify(fields))
    for (const [name, value] of Object.entries(fields)) {
      assert.ok(readable(refused.text).includes(`name="${name}" value="${value}"`), `${name} keeps ${value}`)
    }
  }
})

test('the ninth group is refused at the field, with those that there are', async (t) => {
  const { app, get, submit } = await openForms(t, 'sqlite')
  await app.smartRateLimit.client.rateLimitRule.createMany({
    data: ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((group) => ({ ...LOGIN, name: group, group })),
  })
  assert.equal((await submit('rule.html', { ...LOGIN, group: ' G ' })).status, 303)
  for (const [page, name] of [
    ['rule.html', 'other'],
    ['rule.html?named=login', 'login'],
  ] as const) {
    const refused = await submit(page, { ...LOGIN, name, group: 'h' })
    assert.equal(refused.status, 400)
    assert.deepEqual(problems(refused), {
      group:
        '"h" would be one group more than the 8 that are allowed. Give one of a, b, c, d, e, f, g, or an empty text for the group without a name.',
    })
  }
  assert.match((await get('rule.html?named=login')).text, /name="group" value="g"/)
})

test('all fields of a stored rule can be wrong at once, and each says so', async (t) => {
  const { submit } = await openForms(t, 'sqlite')
  await submit('rule.html', LOGIN)
  const names = ['name', 'pathPattern', 'method', 'condition', 'rate', 'key', 'counts', 'cost', 'refusalStatus']
  const more = ['refusalMessage', 'banAfter', 'banFor', 'startsAt', 'endsAt', 'group', 'priority']
  const wrong = Object.fromEntries([...names, ...more].map((name) => [name, `(${'W'.repeat(600)}`]))
  const refused = await submit('rule.html?named=login', wrong)
  assert.equal(refused.status, 400)
  assert.deepEqual(Object.keys(problems(refused)).sort(), Object.keys(wrong).sort())
})

test('groups of fields that are as by default are folded, and open where one is wrong', async (t) => {
  const { get, submit } = await openForms(t, 'sqlite')
  const rest = ['Condition', 'Counting', 'Refusal', 'Ban', 'Time']
  assert.deepEqual(folded(await get('rule.html')), rest)
  const refused = await submit('rule.html', { ...LOGIN, condition: 'nothing', refusalStatus: '200' })
  assert.deepEqual(folded(refused), ['Counting', 'Ban', 'Time'])
  await submit('rule.html', { ...LOGIN, banAfter: '3', banFor: '2h' })
  assert.deepEqual(folded(await get('rule.html?named=login')), ['Condition', 'Counting', 'Refusal', 'Time'])
})

test('the preview says what the rule would have refused, keeps what was typed, and saves nothing', async (t) => {
  const { app, clock, database, submit, get } = await openForms(t, 'sqlite')
  const requests = Array.from({ length: 7 }, (_, number) => ({
    timestampMs: clock.now() - 3_600_000 + number,
    client: 'ip:203.0.113.7',
    clientIp: '203.0.113.7',
    path: '/login',
  }))
  await logRows(database, requests)
  const preview = await submit('rule.html', { ...LOGIN, rate: '5 / m', do: 'preview' })
  assert.equal(preview.status, 200)
  assert.match(preview.text, /7 of 7 requests matched; 28\.6% of these would have been refused, from 1 client\./)
  assert.match(preview.text, /<svg class="chart"/)
  assert.match(preview.text, /name="pathPattern" value="\^\/login"/)
  assert.equal(await app.smartRateLimit.client.rateLimitRule.count(), 0)

  const condition = "request.headers['user-agent'].contains('bot')"
  const unknown = await submit('rule.html', { ...LOGIN, condition, do: 'preview' })
  assert.match(
    readable(unknown.text),
    /<p>Nothing can be said about any of 7 requests: rule "login" reads request\.headers\['user-agent'\], which the log does not have\.</,
  )
  assert.doesNotMatch(unknown.text, /None of|did not match/)

  const wrong = await submit('rule.html', { ...LOGIN, rate: '5 per minute', do: 'preview' })
  assert.deepEqual([wrong.status, problems(wrong)], [400, { rate: 'Write it as 5/m.' }])

  const suggested = await submit('rule.html', { ...LOGIN, rate: '', do: 'suggest' })
  assert.match(suggested.text, /In the last 7 days 1 client sent 7 requests to \/login\./)
  assert.match(suggested.text, /<button name="do" value="rate=7\/m"[^>]*>Use 7\/m</)
  const filled = await submit('rule.html', { ...LOGIN, rate: '', description: 'mine', do: 'rate=7/m' })
  assert.match(filled.text, /name="rate" value="7\/m"/)
  assert.match(filled.text, />mine<\/textarea>/)
  assert.equal((await get('rule.html?named=login')).status, 404)
  for (const odd of ['constructor', 'constructor=1', '__proto__=x', 'nothing=1']) {
    const { status } = await submit('rule.html', { ...LOGIN, name: 'login', rate: 'x', do: odd })
    assert.equal(status, 400)
  }
})

test('rates are suggested for the patterns of the guides: one path, and the beginning of paths', async (t) => {
  const { clock, database, submit } = await openForms(t, 'sqlite')
  const paths = ['/login', '/login', '/login', '/login/reset', '/logins', '/api/a', '/api/b']
  await logRows(
    database,
    paths.map((path, number) => ({
      timestampMs: clock.now() - 3_600_000 + number,
      client: 'ip:203.0.113.7',
      clientIp: '203.0.113.7',
      method: path === '/login' ? 'POST' : 'GET',
      path,
    })),
  )
  for (const [pathPattern, words] of [
    ['^/login$', '1 client sent 3 requests to /login.'],
    ['^/login', '1 client sent 5 requests to /login.'],
    ['^/api/', '1 client sent 2 requests to /api/.'],
    ['^/', '1 client sent 7 requests to any path.'],
    [
      '^/login\\.html$',
      'The log has no requests of /login.html in the last 7 days, but for denied ones, and those of clients in an incident, which are left out.',
    ],
    [
      '^/sign-in$',
      'The log has no requests of /sign-in in the last 7 days, but for denied ones, and those of clients in an incident, which are left out.',
    ],
    ['^/log(in|out)$', 'Rates are suggested only for patterns that match a path or the beginning of one'],
  ] as const) {
    const { text } = await submit('rule.html', { ...LOGIN, pathPattern, rate: '', do: 'suggest' })
    assert.ok(unescapeHtml(text).includes(words), pathPattern)
  }
  const { text } = await submit('rule.html', { ...LOGIN, pathPattern: '^/login$', method: 'POST', do: 'suggest' })
  assert.match(text, /1 client sent 3 requests to POST \/login\./)
  assert.match(text, /Use 3\/m</)
})

test('a viewer sees hostile values of a rule as texts', async (t) => {
  const { app, get } = await openForms(t, 'sqlite', 'viewer')
  const hostile = '"><script>\u202e'
  await app.smartRateLimit.client.rateLimitRule.create({ data: { ...LOGIN, description: hostile } })
  const { text } = await get('rule.html?named=login')
  assert.doesNotMatch(text, /<script>|\u202e/)
})

test('a viewer previews rules and asks for rates, and saves nothing', async (t) => {
  const { app, clock, database, open, submit } = await openForms(t, 'sqlite', 'viewer')
  const { id } = await app.smartRateLimit.client.rateLimitRule.create({ data: LOGIN })
  const requests = Array.from({ length: 7 }, (_, number) => ({
    timestampMs: clock.now() - 3_600_000 + number,
    client: 'ip:203.0.113.7',
    clientIp: '203.0.113.7',
    path: '/login',
  }))
  await logRows(database, requests)
  const page = await open(`rule.html?id=${id}`)
  const preview = await page.submit({ do: 'preview' })
  assert.equal(preview.status, 200)
  assert.match(preview.text, /7 of 7 requests matched; 28\.6% of these would have been refused/)
  const suggested = await page.submit({ do: 'suggest' })
  assert.match(suggested.text, /1 client sent 7 requests to \/login\./)
  assert.match(suggested.text, /<th scope="row" role="rowheader">7\/m<\/th>/)
  // As the API previews what is not stored.
  const proposed = await page.submit({ ...LOGIN, id: '', version: '', rate: '6/m', do: 'preview' })
  assert.match(proposed.text, /7 of 7 requests matched; 14\.3%/)

  for (const fields of [{ rate: '9/m' }, { do: 'delete' }, { ...LOGIN, name: 'new', id: '', version: '' }]) {
    assert.equal((await page.submit(fields)).status, 403)
  }
  assert.equal((await submit('override.html', { client: 'user:1', effect: 'deny' })).status, 403)
  const rules = await app.smartRateLimit.client.rateLimitRule.findMany()
  assert.deepEqual(
    rules.map(({ name, rate }) => [name, rate]),
    [['login', '5/m']],
  )
  assert.equal(await app.smartRateLimit.client.rateLimitOverride.count(), 0)
})

test('the page of a rule tells its history, and reverts a change by one button', async (t) => {
  const { submit, get, follow, open, app } = await openForms(t, 'sqlite')
  await submit('rule.html', LOGIN)
  await submit('rule.html?named=login', { rate: '7/m' })
  await submit('rule.html?named=login', { name: 'sign-in' })
  const page = await open('rule.html?named=sign-in')
  const sentences = [...page.text.matchAll(/<b><bdi>alice<\/bdi><\/b> <bdi>([^<]*)<\/bdi>/g)].map(
    ([, text = '']) => text,
  )
  assert.deepEqual(sentences.map(readable), [
    'renamed rule login to sign-in',
    'changed the rate of rule login from 5/m to 7/m',
    'created rule login with path pattern ^/login and rate 5/m',
  ])
  const [, id = ''] =
    /name="id" value="(\d+)">(?:\s*<input[^>]*>)*\s*<button aria-label="Revert: rate back to 5\/m: changed/.exec(
      page.text,
    ) ?? []
  const reverted = await page.submit({ id, entity: 'rule', name: 'sign-in' }, {}, 'change-revert')
  assert.match((await follow(reverted)).text, /The rule login has the rate 5\/m again\./)
  const rule = await app.smartRateLimit.client.rateLimitRule.findUniqueOrThrow({ where: { name: 'sign-in' } })
  assert.equal(rule.rate, '5/m')
  // A name that is wrong, or taken, is of the rule that is open all the same.
  const wrong = await submit('rule.html?named=sign-in', { name: 'default' })
  assert.match(wrong.text, /<h1><bdi>sign-in<\/bdi>/)
  assert.match(wrong.text, /renamed rule login to sign-in/)
  assert.doesNotMatch((await get('rule.html')).text, /id="history"/)
})
