/** The panel changes limits: only staff gets anything from it, by any route and method. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fastifyCookie from '@fastify/cookie'
import { forAnyDatabase } from '../support/databases.js'
import { rawStatus, sendRaw } from '../support/http-client.js'
import { long } from '../support/long.js'
import { addressesOf } from '../support/panel-addresses.js'
import { FROM_PANEL, formOf, PANEL, type PanelAppOptions, startWithPanel } from '../support/panel-app.js'
import { fillPanel, panelContents } from '../support/panel-contents.js'
import { cookieOf } from '../support/staff-app.js'

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const KEY = encodeURIComponent('ip:203.0.113.99')
/** What only staff may read. */
const SECRETS = /secret-rule|203\.0\.113\.99|REDUX_STATE|UserComponents|Export rules|adminjs/i

function spellingsOf(address: string): string[] {
  const [path = '', query = ''] = address.split('?')
  const search = query === '' ? '' : `?${query}`
  return [
    address,
    `${path}/${search}`,
    `/${path}${search}`,
    `${path.replace('/admin', '/%61dmin')}${search}`,
    `${path.replace('/admin', '//admin')}${search}`,
    `${path.replace('/admin', '/ADMIN')}${search}`,
    `${path.replace('/admin/', '/admin%2F')}${search}`,
    `${path.replace('/admin/', '/admin/../admin/')}${search}`,
    `${path.replace('/admin/', '/admin/frontend/assets/../../')}${search}`,
    `${path};/sign-in${search}`,
    `${path}?a=/sign-in&${query}`,
    `http://127.0.0.1${path}${search}`,
  ]
}

forAnyDatabase((provider) => {
  const forged = `ratelimit_staff=${fastifyCookie.sign('forged', 'another secret of 32 characters or so')}`
  const strangers: readonly [who: string, sent: Readonly<Record<string, string>>, options: PanelAppOptions][] = [
    ['an anonymous client', {}, {}],
    ['a client with a forged session', { cookie: forged }, {}],
    ['a customer', { 'x-user': 'customer' }, { admin: { isStaff: ({ headers }) => headers['x-user'] === 'staff' } }],
  ]
  // What tells them apart is read from the request alone: on one database it is the same as on the other.
  for (const [number, [who, sent, options]] of strangers.slice(0, provider === 'sqlite' ? 3 : 1).entries()) {
    test(`${who} gets nothing from any route, by any method, and changes nothing`, long(), async (t) => {
      const { request, routes, database, clock } = await startWithPanel(t, provider, options)
      await fillPanel(database)
      const before = await panelContents(database)
      const form = await formOf({ name: 'owned', isActive: 'false', rate: '0/s', pathPattern: '.', apply: 'true' })
      const open = [`${PANEL}/sign-in`, `${PANEL}/sign-out`]
      const addresses = [...new Set(routes.filter(({ url }) => !open.includes(url)).flatMap(addressesOf))]
      assert.ok(addresses.length > 100, `${addresses.length} addresses`)

      for (const [place, address] of addresses.entries()) {
        // One stranger tries every method at every address; the others try them in turn.
        const methods =
          number === 0 && provider === 'sqlite' ? METHODS : METHODS.filter((_, turn) => turn === place % 7)
        const asked = methods.map(async (method) => {
          const headers = {
            ...sent,
            ...FROM_PANEL,
            'content-type': form.contentType,
            accept: 'text/html',
          }
          const body = method === 'POST' || method === 'PUT' || method === 'PATCH' ? { body: form.body } : {}
          const answer = await request(address, { method, headers, ...body })
          assert.ok([403, 404, 405, 429].includes(answer.status), `${method} ${address}: ${answer.status}`)
          assert.doesNotMatch(answer.text, SECRETS, `${method} ${address}`)
        })
        await Promise.all(asked)
        clock.advance(asked.length * 1_500)
      }
      assert.equal(await panelContents(database), before)
    })
  }

  test('staff change rules by the same addresses, from pages of the panel', async (t) => {
    const { request, database, asStaff, origin } = await startWithPanel(t, provider)
    await fillPanel(database)
    const { cookie } = await asStaff()
    for (const proof of [{ 'sec-fetch-site': 'same-origin' }, { origin }, {}]) {
      await database.client.rateLimitRule.updateMany({ data: { isActive: true } })
      const { status, text } = await request(`${PANEL}/api/resources/rules/bulk/disable?recordIds=1,2`, {
        method: 'POST',
        headers: { cookie, 'x-rate-limit-panel': '1', ...proof },
      })
      assert.equal(status, 200)
      assert.match(text, /Disabled 2 rules\./)
      assert.equal(await database.client.rateLimitRule.count({ where: { isActive: true } }), 0)
    }
    const [last] = await database.client.rateLimitChange.findMany({ orderBy: { id: 'desc' }, take: 1 })
    assert.equal(last?.actor, 'alice')
  })

  test('events cannot be made, changed or deleted, by any address; nor can counters', long(), async (t) => {
    const { request, routes, database, asStaff } = await startWithPanel(t, provider)
    await fillPanel(database)
    const headers = await asStaff()
    const form = await formOf({ key: 'owned', allowed: 'true', count: '0' })
    const readOnly = ['events', 'counters', 'sliding-windows', 'token-buckets', 'leaky-buckets', 'concurrency']
    const before = await panelContents(database)
    const api = routes.filter(({ url }) => /\/api\/resources\//.test(url))
    for (const { url, method } of api) {
      for (const resource of readOnly) {
        for (const action of ['new', 'edit', 'delete', 'bulkDelete', 'search']) {
          const id = resource === 'events' ? '1' : KEY
          const address = url
            .replace(':resourceId', resource)
            .replace(':recordId', id)
            .replace(':action', action)
            .replace(':query', 'x')
          const path = address.includes('/bulk/') ? `${address}?recordIds=${id}` : address
          const body = method === 'POST' ? { body: form.body } : {}
          await request(path, { method, headers: { ...headers, 'content-type': form.contentType }, ...body })
        }
      }
    }
    assert.equal(await panelContents(database), before)
  })

  test('a session does not survive a sign-in, ends by sign-out, and its cookie is for the browser and this site alone', async (t) => {
    const { request, signIn } = await startWithPanel(t, provider)
    const first = await signIn()
    const [set = ''] = first.headers['set-cookie'] ?? []
    assert.match(set, /; HttpOnly; SameSite=Strict$/)
    assert.match(set, /; Path=\/ops;/)
    const old = cookieOf(first.headers)
    const fresh = cookieOf((await signIn(undefined, { cookie: old })).headers)
    assert.notEqual(fresh, old)
    assert.equal((await request(PANEL, { headers: { cookie: old } })).status, 403)
    assert.equal((await request(PANEL, { headers: { cookie: fresh } })).status, 302)

    const out = await request(`${PANEL}/sign-out`, { method: 'POST', headers: { cookie: fresh } })
    assert.equal(out.status, 303)
    assert.equal((await request(PANEL, { headers: { cookie: fresh } })).status, 403)
  })

  test('one sign-in is enough for the dashboard and the panel', async (t) => {
    const { request, asStaff } = await startWithPanel(t, provider)
    const { cookie } = await asStaff()
    assert.equal((await request('/ops/dashboard/', { headers: { cookie } })).status, 200)
    assert.equal((await request(PANEL, { headers: { cookie } })).status, 302)
  })
})

test('no other spelling of an address gets past the guard', long(), async (t) => {
  const { routes, database, port, clock } = await startWithPanel(t, 'sqlite')
  await fillPanel(database)
  const before = await panelContents(database)
  const api = routes.filter(
    ({ url, method }) => method === 'GET' && /\/api\/|\/assets\/app|\/resources\/:resourceId$/.test(url),
  )
  const addresses = [...new Set(api.flatMap(addressesOf))].filter((_, place) => place % 4 === 0)
  for (const address of addresses) {
    for (const spelling of spellingsOf(address)) {
      const answer = await sendRaw(port, `GET ${spelling} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Rate-Limit-Panel: 1`)
      assert.ok(rawStatus(answer) >= 400, `${spelling}: ${answer.slice(0, 200)}`)
      assert.doesNotMatch(answer, SECRETS, spelling)
      clock.advance(1_500)
    }
  }
  assert.equal(await panelContents(database), before)
})

test('after too many refusals of its address the panel still asks to sign in', async (t) => {
  const { request } = await startWithPanel(t, 'sqlite')
  const open = async () => request(PANEL, { headers: { accept: 'text/html' } })
  for (let refusal = 1; refusal <= 60; refusal++) assert.equal((await open()).status, 403)
  const { status, text } = await open()
  assert.equal(status, 429)
  assert.match(text, /<form[^>]+method="post" action="\/ops\/admin\/sign-in"/)
})

test('only POST changes anything: of every action, by every other method, from the panel itself', long(), async (t) => {
  const { request, routes, database, asStaff, clock } = await startWithPanel(t, 'sqlite')
  await fillPanel(database)
  const headers = await asStaff()
  const before = await panelContents(database)
  const answers = new Map<string, number>()
  for (const address of new Set(routes.filter(({ url }) => url.includes('/api/')).flatMap(addressesOf))) {
    for (const method of METHODS.filter((each) => each !== 'POST')) {
      const { status } = await request(address, { method, headers })
      if (method === 'GET') answers.set(address.replace(PANEL, ''), status)
      else assert.ok([403, 404, 405, 415].includes(status), `${method} ${address}: ${status}`)
      clock.advance(1_500)
    }
  }
  assert.equal(await panelContents(database), before)
  for (const read of ['rules/actions/list', 'rules/records/1/show', 'rules/records/1/edit', 'events/actions/list']) {
    assert.equal(answers.get(`/api/resources/${read}`), 200, read)
  }
  for (const change of [
    'rules/bulk/enable?recordIds=1,2',
    'rules/bulk/disable?recordIds=1,2',
    'rules/records/1/delete',
    'rules/actions/new',
  ]) {
    assert.equal(answers.get(`/api/resources/${change}`), 405, change)
  }
})

test('in production the cookie is Secure', async (t) => {
  const { NODE_ENV } = process.env
  process.env.NODE_ENV = 'production'
  t.after(() => {
    if (NODE_ENV === undefined) delete process.env.NODE_ENV
    else process.env.NODE_ENV = NODE_ENV
  })
  const { signIn } = await startWithPanel(t, 'sqlite')
  assert.match(String((await signIn()).headers['set-cookie']), /; Secure/)
})
