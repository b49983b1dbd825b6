/** What each role is shown, and let do, on the dashboard and the panel; the API's matrix is in api-roles.test.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type StaffAnswer, staffAccounts } from '../../src/dashboard.js'
import { InvalidSettingError } from '../../src/index.js'
import { mayDo, RIGHTS, STAFF_ROLES } from '../../src/staff/shell/roles.js'
import { long } from '../support/long.js'
import { FROM_PANEL, formOf, PANEL, startWithPanel } from '../support/panel-app.js'
import { fillPanel } from '../support/panel-contents.js'
import { ACCOUNTS, cookieOf, PASSWORD, SECRET } from '../support/staff-app.js'

test('the panel does for each role what the table says, and shows no other action', long(), async (t) => {
  let role: StaffAnswer = 'admin'
  const { request, database, origin } = await startWithPanel(t, 'sqlite', {
    admin: { isStaff: () => role, actor: () => 'eve' },
  })
  await fillPanel(database)
  const post = async (path: string, fields: Readonly<Record<string, string>> = {}) => {
    const { body, contentType } = await formOf(fields)
    const headers = { ...FROM_PANEL, origin, 'content-type': contentType }
    return request(`${PANEL}/api/${path}`, { method: 'POST', headers, body })
  }
  const read = (path: string) => request(`${PANEL}/api/${path}`, { headers: FROM_PANEL })
  const rule = { name: 'new', pathPattern: '^/', rate: '5/m' }

  const deeds = [
    ['read', () => read('resources/rules/actions/list')],
    ['read', () => read('resources/events/actions/list')],
    ['switchRules', () => post('resources/rules/bulk/disable?recordIds=1')],
    ['switchRules', () => post('resources/rules/bulk/enable?recordIds=1')],
    ['writeRules', () => post('resources/rules/actions/new', rule)],
    ['writeRules', () => post('resources/rules/records/1/edit', { isActive: 'false' })],
    ['writeRules', () => post('resources/rules/bulk/bulkDelete?recordIds=9')],
    ['writeOverrides', () => post('resources/overrides/actions/new', { client: 'ip:192.0.2.1', effect: 'deny' })],
    ['writeOverrides', () => post('resources/overrides/records/1/edit', { note: 'a' })],
  ] as const
  for (role of ['viewer', 'operator', 'admin'] as const) {
    for (const [index, [right, act]] of deeds.entries()) {
      const { status, text } = await act()
      assert.equal(status === 403, !mayDo(role, right), `${role} ${index} ${right}: ${status} ${text.slice(0, 200)}`)
    }
    const listed = JSON.parse((await read('resources/rules/actions/list')).text)
    const names = (actions: readonly { readonly name: string }[]) => actions.map(({ name }) => name)
    const [first] = listed.records
    assert.equal(names(first.recordActions).includes('edit'), mayDo(role, 'writeRules'))
    assert.equal(names(first.bulkActions).includes('enable'), mayDo(role, 'switchRules'))
    const page = await request(`${PANEL}/resources/rules/actions/new`, { headers: { accept: 'text/html' } })
    assert.equal(page.status, mayDo(role, 'writeRules') ? 200 : 403)
  }
  // The loss of a role holds with the next request.
  role = 'viewer'
  assert.equal((await post('resources/rules/actions/new', { ...rule, name: 'later' })).status, 403)
  role = null
  assert.equal((await read('resources/rules/actions/list')).status, 403)
  const { actor } = await database.client.rateLimitChange.findFirstOrThrow({ orderBy: { id: 'desc' } })
  assert.equal(actor, 'eve')
})

test('an account has the role that it is given, an admin without one, on the dashboard and the panel', async (t) => {
  const { alice } = ACCOUNTS
  const accounts = { alice: { passwordHash: alice, role: 'viewer' }, bob: alice } as const
  const staff = staffAccounts({ accounts, sessionSecret: SECRET, cookiePath: '/ops' })
  const { request, signIn, database } = await startWithPanel(t, 'sqlite', { admin: { staff } })
  await fillPanel(database)
  const asAlice = { cookie: cookieOf((await signIn(PASSWORD)).headers) }
  const page = (path: string, cookie: string) => request(`/ops/dashboard/${path}`, { headers: { cookie } })
  const bob = await request(`${PANEL}/sign-in`, {
    method: 'POST',
    body: new URLSearchParams({ account: 'bob', password: PASSWORD }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  const asBob = { cookie: cookieOf(bob.headers) }

  for (const [{ cookie }, isAdmin] of [
    [asAlice, false],
    [asBob, true],
  ] as const) {
    const rules = (await page('rules.html', cookie)).text
    assert.equal(rules.includes('href="rule.html"'), isAdmin)
    assert.match(rules, /href="rule.html\?named&#x3D;/)
    assert.equal((await page('rule.html', cookie)).status, isAdmin ? 200 : 403)
    const offender = (await page('offender.html?key=ip:203.0.113.99', cookie)).text
    assert.equal(/override\.html\?client/.test(offender), isAdmin)
    assert.equal((await page('rule-form?path=/secret', cookie)).status, isAdmin ? 302 : 403)
    const client = (await page('client.html?client=ip:203.0.113.99', cookie)).text
    assert.equal(/method="post" action="(?:block|end)/.test(client), isAdmin)
    const created = await request(`${PANEL}/api/resources/rules/bulk/disable?recordIds=1`, {
      method: 'POST',
      headers: { cookie, ...FROM_PANEL },
    })
    assert.equal(created.status, isAdmin ? 200 : 403)
  }

  assert.throws(
    // Hosts in JavaScript give what they like.
    () => staffAccounts({ accounts: { a: { passwordHash: alice, role: 'root' as 'admin' } }, sessionSecret: SECRET }),
    (error) =>
      error instanceof InvalidSettingError && /no role for "a": give viewer, operator, admin/.test(error.message),
  )
})

test('every right belongs to a role, and to those above it', () => {
  for (const { from } of Object.values(RIGHTS)) assert.ok(STAFF_ROLES.includes(from))
  assert.deepEqual(
    STAFF_ROLES.map((role) => mayDo(role, 'switchRules')),
    [false, true, true],
  )
})
