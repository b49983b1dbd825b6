/** The pages in apps that are set up in their own ways. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fastifyCookie from '@fastify/cookie'
import fastifyView from '@fastify/view'
import type { FastifyInstance, FastifyServerOptions } from 'fastify'
import Handlebars from 'handlebars'
import { dashboardPlugin, staffAccounts } from '../../../src/dashboard.js'
import { type AppOptions, openDatabase, startApp } from '../../support/build-app.js'
import { ACCOUNTS, cookieOf, PASSWORD, SECRET } from '../../support/staff-app.js'

interface Host {
  readonly name: string
  readonly fastify?: FastifyServerOptions
  readonly before?: NonNullable<AppOptions['before']>
  readonly prefix?: string
}

const HOSTS: readonly Host[] = [
  { name: 'a plain app' },
  { name: 'no prefix', prefix: '' },
  { name: 'the prefix /', prefix: '/' },
  { name: 'a deep prefix', prefix: '/internal/tools/limits' },
  { name: 'ignoreTrailingSlash', fastify: { routerOptions: { ignoreTrailingSlash: true } } },
  { name: 'ignoreDuplicateSlashes', fastify: { routerOptions: { ignoreDuplicateSlashes: true } } },
  { name: 'caseSensitive: false', fastify: { routerOptions: { caseSensitive: false } } },
  {
    name: 'a relaxed router without a prefix',
    fastify: { routerOptions: { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true } },
    prefix: '',
  },
  { name: 'exposeHeadRoutes: false', fastify: { exposeHeadRoutes: false } },
  { name: 'a query parser of its own', fastify: { routerOptions: { querystringParser: () => ({ days: 'mine' }) } } },
  { name: 'a form parser of its own', before: parseFormsItsOwnWay },
  { name: '@fastify/cookie', before: registerCookies },
  { name: '@fastify/view', before: registerViews },
  { name: 'error handlers of its own', before: handleErrorsItsOwnWay },
]

function parseFormsItsOwnWay(app: FastifyInstance): void {
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, async () => ({
    of: 'the host',
  }))
  app.addContentTypeParser('*', async () => 'anything')
}

async function registerCookies(app: FastifyInstance): Promise<void> {
  await app.register(fastifyCookie, { secret: 'of the host', parseOptions: { path: '/host' } })
}

async function registerViews(app: FastifyInstance): Promise<void> {
  Handlebars.registerPartial('summary', 'of the host')
  await app.register(fastifyView, { engine: { handlebars: Handlebars }, defaultContext: { page: 'of the host' } })
  app.addHook('onRequest', async (_request, reply) => {
    Object.assign(reply, { locals: { page: { title: 'of the host' } } })
  })
}

function handleErrorsItsOwnWay(app: FastifyInstance): void {
  app.setErrorHandler(async (_error, _request, reply) => reply.code(418).send('of the host'))
  app.setNotFoundHandler(async (_request, reply) => reply.code(418).send('of the host'))
}

for (const { name, fastify = {}, before, prefix = '/ops' } of HOSTS) {
  test(`with ${name} staff sign in, look at everything and sign out`, async (t) => {
    const { request } = await startApp(t, {
      database: await openDatabase(t, 'sqlite'),
      plugin: { logEvents: true },
      fastify,
      ...(before === undefined ? {} : { before }),
      routes: async (app) => {
        const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
        await app.register(dashboardPlugin, { ...(prefix === '' ? {} : { prefix }), staff })
      },
    })
    const dashboard = `${prefix === '/' ? '' : prefix}/dashboard`

    const refused = await request(`${dashboard}/`)
    assert.equal(refused.status, 403)
    assert.match(refused.text, /action="sign-in"/)
    assert.match((await request(dashboard)).text, /action="dashboard\/sign-in"/)

    const signedIn = await request(`${dashboard}/sign-in`, {
      method: 'POST',
      body: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    assert.deepEqual([signedIn.status, signedIn.headers.location], [303, './'])
    const [cookie = ''] = signedIn.headers['set-cookie'] ?? []
    assert.match(cookie, new RegExp(`; Path=${prefix === '' ? '/' : prefix}; HttpOnly; SameSite=Strict$`))
    const headers = { cookie: cookieOf(signedIn.headers) }

    const page = await request(`${dashboard}/?days=30`, { headers })
    assert.equal(page.status, 200)
    assert.match(page.text, /<title>Rate limits<\/title>[\s\S]*in the last 30 days/)
    const redirected = await request(`${dashboard}?days=30`, { headers })
    assert.deepEqual([redirected.status, redirected.headers.location], [302, 'dashboard/?days=30'])
    for (const path of ['offender/?key=a', 'offender?key=a']) {
      assert.equal(JSON.parse((await request(`${dashboard}/${path}`, { headers })).text).key, 'a')
    }
    assert.equal((await request(`${dashboard}/offenders.csv`, { headers })).text, 'key,blocked_count\r\n')
    for (const path of ['', '?days=7', 'offenders.csv', 'offender/?key=a', 'offender.html?key=a', 'sign-in']) {
      const got = await request(`${dashboard}/${path}`, { headers })
      const head = await request(`${dashboard}/${path}`, { method: 'HEAD', headers })
      assert.deepEqual([head.status, head.text], [got.status, ''], path)
    }

    const signedOut = await request(`${dashboard}/sign-out`, { method: 'POST', headers })
    assert.deepEqual([signedOut.status, signedOut.headers.location], [303, 'sign-in'])
    assert.equal((await request(`${dashboard}/`, { headers })).status, 403)
    assert.equal((await request(`${dashboard}/sign-in`)).status, 200)
  })
}

test('behind a router that ignores case the session is for the address as the browser spells it', async (t) => {
  const { request } = await startApp(t, {
    database: await openDatabase(t, 'sqlite'),
    fastify: { routerOptions: { caseSensitive: false } },
    routes: async (app) => {
      const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
      await app.register(dashboardPlugin, { prefix: '/ops', staff })
    },
  })
  const { headers } = await request('/OPS/Dashboard/sign-in', {
    method: 'POST',
    body: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })

  assert.match(String(headers['set-cookie']), /; Path=\/OPS;/)
})

test('one app may have the pages twice', async (t) => {
  const { request } = await startApp(t, {
    database: await openDatabase(t, 'sqlite'),
    routes: async (app) => {
      await app.register(dashboardPlugin, { prefix: '/one', isStaff: () => true })
      await app.register(dashboardPlugin, { prefix: '/two', isStaff: () => false })
    },
  })

  assert.equal((await request('/one/dashboard/')).status, 200)
  assert.equal((await request('/two/dashboard/')).status, 403)
})
