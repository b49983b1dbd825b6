/** The page on which an admin creates and revokes API tokens, as a browser without JavaScript uses it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiPlugin } from '../../src/api.js'
import { DAY_MS } from '../../src/ground/time/clock.js'
import { addToken, listTokens } from '../../src/staff/api/token-table.js'
import { cookieOf } from '../support/staff-app.js'
import { openForms } from '../support/staff-forms.js'

const TOKEN = /fsr_[0-9A-Za-z]{36}/

test('a token is shown once, on the page that answers, and opens the API until it is revoked', async (t) => {
  const { get, open, request, log, clock, database, app } = await openForms(
    t,
    'sqlite',
    'admin',
    { useDynamicRules: true },
    (app) => void app.register(apiPlugin, { prefix: '/api' }),
  )
  app.log.level = 'info'
  const created = await (await open('tokens.html')).submit({ name: 'ci', role: 'operator', for: '90 D' })
  assert.equal(created.status, 201)
  const [text = ''] = TOKEN.exec(created.text) ?? []
  const rules = () => request('/api/rules', { headers: { authorization: `Bearer ${text}` } })
  assert.equal((await rules()).status, 200)
  const [row] = await listTokens(database)
  assert.deepEqual([row?.name, row?.role, row?.expiresAt], ['ci', 'operator', clock.now() + 90 * DAY_MS])

  assert.match(String(created.headers['cache-control']), /no-store/)
  assert.doesNotMatch(cookieOf(created.headers) + JSON.stringify(log), TOKEN)
  const listed = await get('tokens.html')
  assert.doesNotMatch(listed.text, TOKEN)
  assert.match(listed.text, /<bdi>ci<\/bdi>[\s\S]*operator[\s\S]*Last use">/)

  const revoked = await (await open('tokens.html')).submit({ revoke: 'ci' })
  assert.deepEqual([revoked.status, revoked.headers.location], [303, 'tokens.html'])
  assert.match((await get('tokens.html', revoked)).text, /The token ci was revoked/)
  assert.equal((await rules()).status, 401)
  const lines = log.filter(({ msg }) => String(msg).startsWith('An API token was'))
  assert.deepEqual(
    lines.map((line) => Object(line)).map(({ msg, token, role, actor, level }) => [msg, token, role, actor, level]),
    [
      ['An API token was created', 'ci', 'operator', 'alice', 30],
      ['An API token was revoked', 'ci', undefined, 'alice', 30],
    ],
  )
})

test('wrong fields and a name that is taken are refused at the field, with what was typed', async (t) => {
  const { submit, database } = await openForms(t, 'sqlite')
  const refused = await submit('tokens.html', { name: 'a:b', role: 'root', for: '3 weeks' })
  assert.equal(refused.status, 400)
  assert.equal(refused.text.match(/aria-invalid/g)?.length, 3)
  assert.match(refused.text, /name="name" value="a:b"/)
  assert.match(refused.text, /id="error-for">Write it as 21d\.</)
  assert.equal((await submit('tokens.html', { name: 'ci', role: 'viewer' })).status, 201)
  const taken = await submit('tokens.html', { name: 'ci', role: 'admin' })
  assert.match(taken.text, /id="error-name">A token already has this name/)
  assert.deepEqual([taken.status, (await listTokens(database)).map(({ role }) => role)], [400, ['viewer']])
})

test('only an admin sees the page or its link, and writes', async (t) => {
  for (const role of ['viewer', 'operator'] as const) {
    const { open, database } = await openForms(t, 'sqlite', role)
    await addToken(database, { name: 'ci', role: 'admin', expiresAtMs: null }, 0)
    const rules = await open('rules.html')
    assert.doesNotMatch(rules.text, /tokens\.html/)
    assert.equal((await rules.submit({ revoke: 'ci' }, {}, 'tokens.html')).status, 403)
    assert.equal((await listTokens(database)).length, 1)
  }
})

test('the page lists what raw SQL wrote as it is', async (t) => {
  const { get, database } = await openForms(t, 'sqlite')
  const { dialect } = database
  await database.execute(
    `INSERT INTO ${dialect.table('rate_limit_token')} (name, token_hash, role, created_at, expires_at)
     VALUES ('<b>\u202ex', 'no hash', 'root', ${dialect.fromMs('1000')}, ${dialect.fromMs('2000')})`,
  )
  const { status, text } = await get('tokens.html')
  assert.equal(status, 200)
  assert.match(text, /<bdi>&lt;b&gt;\\u\{202e\}x<\/bdi>/)
  assert.match(text, /not a role, gives no access[\s\S]*Expired <time/)
})
