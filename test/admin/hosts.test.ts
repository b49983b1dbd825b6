/** The panel lives beside what a host has of its own. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import fastifyCookie from '@fastify/cookie'
import fastifyFormbody from '@fastify/formbody'
import fastifyMultipart from '@fastify/multipart'
import fastifySession from '@fastify/session'
import fastifySwagger from '@fastify/swagger'
import Fastify, { type FastifyInstance } from 'fastify'
import { adminPlugin } from '../../admin/index.js'
import { dashboardPlugin, staffAccounts } from '../../src/dashboard.js'
import { rateLimitPlugin } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { captureLog, openDatabase } from '../support/build-app.js'
import { FROM_PANEL, formOf } from '../support/panel-app.js'
import { fillPanel, panelContents } from '../support/panel-contents.js'
import { ACCOUNTS, cookieOf, PASSWORD, SECRET } from '../support/staff-app.js'

declare module 'fastify' {
  interface Session {
    user?: string
  }
}

const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

async function hostPlugins(app: FastifyInstance): Promise<void> {
  await app.register(fastifyCookie)
  await app.register(fastifySession, { secret: SECRET, cookie: { secure: false } })
  await app.register(fastifyFormbody)
  await app.register(fastifyMultipart, { attachFieldsToBody: 'keyValues' })
}

function hostRoutes(app: FastifyInstance): void {
  app.post('/upload', async ({ body }) => body)
  app.post('/form', async ({ body }) => body)
  app.get('/sign-in-as/:user', async ({ params, session }) => {
    session.user = String(Object(params).user)
    return 'ok'
  })
}

async function withLimits(t: TestContext, app: FastifyInstance) {
  const database = await openDatabase(t, 'sqlite')
  atEnd(t, () => app.close())
  await app.register(rateLimitPlugin, { database: database.client, useDynamicRules: true })
  return database
}

test('beside cookie, session, formbody and multipart of the host, registered before or after, both work', async (t) => {
  for (const order of ['before', 'after']) {
    const app = Fastify({ pluginTimeout: 60_000 })
    if (order === 'before') await hostPlugins(app)
    const database = await withLimits(t, app)
    await app.register(adminPlugin, { staff: staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET }) })
    if (order === 'after') await hostPlugins(app)
    hostRoutes(app)

    const signedIn = await app.inject({
      method: 'POST',
      url: '/admin/sign-in',
      headers: FORM,
      payload: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
    })
    const headers = {
      ...FROM_PANEL,
      cookie: cookieOf({ 'set-cookie': [signedIn.headers['set-cookie'] ?? []].flat() }),
    }
    const { body, contentType } = await formOf({ name: 'api', pathPattern: '^/api/', rate: '1/m' })
    const saved = await app.inject({
      method: 'POST',
      url: '/admin/api/resources/rules/actions/new',
      headers: { ...headers, 'content-type': contentType },
      payload: body,
    })
    assert.match(saved.body, /Saved|successfullyCreated/)
    assert.deepEqual(
      (await database.client.rateLimitRule.findMany()).map(({ name }) => name),
      ['api'],
    )

    const upload = await formOf({ title: 'mine' })
    const uploaded = await app.inject({
      method: 'POST',
      url: '/upload',
      headers: { 'content-type': upload.contentType },
      payload: upload.body,
    })
    assert.deepEqual(uploaded.json(), { title: 'mine' })
    const form = await app.inject({ method: 'POST', url: '/form', headers: FORM, payload: 'a=1' })
    assert.deepEqual(form.json(), { a: '1' })
  }
})

test("a host's own session lets staff in alone; the history names them, and the panel as the source", async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  await hostPlugins(app)
  const database = await withLimits(t, app)
  await app.register(adminPlugin, {
    rootPath: '/limits/panel',
    isStaff: ({ session }) => session.user === 'grace',
    actor: async ({ session }) => `${session.user}@example.org`,
  })
  hostRoutes(app)
  await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '1/m' } })

  const postAs = async (user: string, action: string) => {
    const { headers } = await app.inject(`/sign-in-as/${user}`)
    const cookie = cookieOf({ 'set-cookie': [headers['set-cookie'] ?? []].flat() })
    return app.inject({
      method: 'POST',
      url: `/limits/panel/api/resources/${action}`,
      headers: { ...FROM_PANEL, cookie },
    })
  }
  assert.equal((await postAs('mallory', 'rules/bulk/disable?recordIds=1')).statusCode, 403)
  assert.equal(await database.client.rateLimitRule.count({ where: { isActive: true } }), 1)
  const allowed = await postAs('grace', 'rules/bulk/disable?recordIds=1')
  assert.equal(allowed.statusCode, 200, allowed.body)
  assert.equal((await postAs('grace', 'rules/records/1/delete')).statusCode, 200)
  const changes = await database.client.rateLimitChange.findMany({ orderBy: { id: 'asc' } })
  assert.deepEqual(
    changes.map(({ action, source, actor }) => [action, source, actor]),
    [
      ['create', 'client', ''],
      ['update', 'panel', 'grace@example.org'],
      ['delete', 'panel', 'grace@example.org'],
    ],
  )
})

test('whatever the name of an actor is made of, it ends no script of the page', async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  await withLimits(t, app)
  for (const separator of ['', '\n', '\r', '\u2028', '\u2029']) {
    const path = `/admin-${separator.codePointAt(0) ?? 'none'}`
    const actor = () => `a${separator};</script><script>alert(1)</script>`
    await app.register(adminPlugin, { rootPath: path, isStaff: () => true, actor })
  }
  for (const code of ['none', 10, 13, 0x2028, 0x2029]) {
    const { statusCode, body } = await app.inject(`/admin-${code}/resources/rules`)
    assert.equal(statusCode, 200)
    assert.ok(!body.includes('alert(1)</script>'), String(code))
  }
})

test('an isStaff that fails, or answers neither true nor a role, refuses', async (t) => {
  const roles = [{ actor: 'eve', role: 'root' }, { actor: 'eve' }, { actor: '', role: 'admin' }]
  const answers: unknown[] = [undefined, 'true', 1, {}, ...roles]
  for (const isStaff of [() => Promise.reject(new Error('no directory')), ...answers.map((answer) => () => answer)]) {
    const app = Fastify({ pluginTimeout: 60_000 })
    await withLimits(t, app)
    await app.register(adminPlugin, { isStaff: isStaff as () => boolean })
    assert.equal((await app.inject('/admin')).statusCode, 403)
  }
})

test('an isStaff that answers an admin names the actor', async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  const { client } = await withLimits(t, app)
  await app.register(adminPlugin, { isStaff: () => ({ actor: 'grace', role: 'admin' }), actor: () => 'somebody else' })
  await client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '1/m' } })
  const url = '/admin/api/resources/rules/bulk/disable?recordIds=1'
  assert.equal((await app.inject({ method: 'POST', url, headers: FROM_PANEL })).statusCode, 200)
  const { actor } = await client.rateLimitChange.findFirstOrThrow({ orderBy: { id: 'desc' } })
  assert.equal(actor, 'grace')
})

test('without staff and isStaff every request is refused, and the log says so', async (t) => {
  const { stream, log } = captureLog()
  const app = Fastify({ pluginTimeout: 60_000, logger: { level: 'warn', stream } })
  await withLimits(t, app)
  await app.register(adminPlugin)
  assert.equal((await app.inject('/admin')).statusCode, 403)
  assert.match(log.map(({ msg }) => msg).join(), /adminPlugin has neither staff nor isStaff/)
})

test('a host that sets a policy for all its pages, and compresses them, leaves those of the panel as they have to be', async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  app.addHook('onRequest', async (_request, reply) => {
    reply.header('content-security-policy', "default-src 'self'")
  })
  app.addHook('onSend', async (_request, _reply, payload) => {
    return typeof payload === 'string' ? Readable.from([Buffer.from(payload)]) : payload
  })
  await withLimits(t, app)
  await app.register(adminPlugin, { isStaff: () => true, actor: () => '</script><script>alert(1)</script>' })

  const { body, headers } = await app.inject('/admin/resources/rules')
  const [, nonce = ''] = /script-src 'self' 'nonce-([^']+)'/.exec(String(headers['content-security-policy'])) ?? []
  assert.notEqual(nonce, '')
  const scripts = [...body.matchAll(/<script(?! src=)[^>]*>/g)].map(([tag]) => tag)
  assert.deepEqual(new Set(scripts), new Set([`<script nonce="${nonce}">`]))
  assert.doesNotMatch(body, /alert\(1\)<\/script>|googleapis/)
})

test('whatever the router of the host takes for the same path, the panel is there for staff, and refuses others', async (t) => {
  const lenient = { caseSensitive: false, ignoreTrailingSlash: true, ignoreDuplicateSlashes: true }
  const querystringParser = (text: string) =>
    Object.fromEntries([...new URLSearchParams(text)].map(([name, value]) => [name, value.split(',')]))
  for (const options of [{ routerOptions: lenient }, lenient, { routerOptions: { querystringParser } }]) {
    const app = Fastify({ pluginTimeout: 60_000, ...options })
    const database = await withLimits(t, app)
    await app.register(adminPlugin, { isStaff: ({ headers }) => headers['x-user'] === 'staff' })
    for (const name of ['one', 'two']) {
      await database.client.rateLimitRule.create({ data: { name, pathPattern: '.', rate: '1/m' } })
    }
    const disable = '/admin/api/resources/rules/bulk/disable?recordIds=1,2'
    const headers = { 'x-user': 'staff' }
    const spellings = [disable, `/${disable}`, disable.replace('disable?', 'DISABLE/?')]
    for (const method of ['GET', 'POST'] as const) {
      for (const url of method === 'GET' ? ['/admin', '/admin/', ...spellings] : spellings) {
        // Of what is no address of the panel, the second request is one too many for the rules.
        const { statusCode } = await app.inject({ method, url, headers: FROM_PANEL })
        assert.ok([403, 404, 429].includes(statusCode), `${method} ${url}: ${statusCode}`)
      }
      const foreign = { ...headers, ...FROM_PANEL, 'sec-fetch-site': 'cross-site' }
      assert.equal((await app.inject({ method, url: disable, headers: foreign })).statusCode, 403)
      const unmarked = { ...headers, 'sec-fetch-site': 'same-origin' }
      assert.equal((await app.inject({ method, url: disable, headers: unmarked })).statusCode, 403)
    }
    assert.equal(await database.client.rateLimitRule.count({ where: { isActive: true } }), 2)
    for (const url of ['/admin', '/admin/']) assert.equal((await app.inject({ url, headers })).statusCode, 302, url)
    const { json } = await app.inject({ method: 'POST', url: disable, headers: { ...headers, ...FROM_PANEL } })
    assert.equal(json().notice.options.defaultValue, 'Disabled 2 rules.')
  }
})

test('registered with a prefix, the panel is below it, and its pages say so', async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  await withLimits(t, app)
  await app.register(adminPlugin, { prefix: '/v1', rootPath: '/admin', isStaff: () => true })
  const { body } = await app.inject('/v1/admin/resources/rules')
  assert.match(body, /"rootPath":"\/v1\/admin"/)
  const [, script = ''] = /src="([^"]+components\.bundle\.js)"/.exec(body) ?? []
  assert.equal((await app.inject(script)).statusCode, 200)
})

test('options that are wrong, unknown or contradict each other are refused at start', async (t) => {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
  const wrong: [object, RegExp][] = [
    [{ rootPath: 'admin' }, /Option "rootPath" is "admin": give a path such as \/admin/],
    [{ rootPath: '/admin/' }, /without a slash at its end/],
    [{ rootPath: '/:tenant' }, /Option "rootPath"/],
    [
      { rootpath: '/x' },
      /Option "rootpath" of adminPlugin does not exist\. Did you mean `rootPath`\? Give one of staff, isStaff, /,
    ],
    [{ staff: {} }, /Option "staff" is not what staffAccounts/],
    [{ isStaff: true }, /Option "isStaff" is not a function/],
    [{ staff, isStaff: () => true }, /Options "staff" and "isStaff" are both set/],
    [{ staff, actor: () => 'grace' }, /Options "staff" and "actor" are both given/],
  ]
  for (const [options, message] of wrong) {
    const app = Fastify()
    await withLimits(t, app)
    await assert.rejects(async () => app.register(adminPlugin, options), message)
  }
})

test('the host may use AdminJS and its Prisma adapter for itself', async (t) => {
  const { AdminJS, BaseDatabase, ComponentLoader } = await import('adminjs')
  const app = Fastify({ pluginTimeout: 60_000 })
  await withLimits(t, app)
  await app.register(adminPlugin, { isStaff: () => true })
  await app.ready()
  const { Resource } = await import('../../admin/generated/adminjs-prisma.js')
  AdminJS.registerAdapter({ Database: BaseDatabase, Resource })
  const { createAdminResources } = await import('../../admin/index.js')
  const componentLoader = new ComponentLoader()
  const admin = new AdminJS({ componentLoader, resources: await createAdminResources(app, componentLoader) })
  assert.ok(Object.hasOwn(componentLoader.getComponents(), 'RateLimitInList'))
  assert.deepEqual(
    admin.resources.map((resource) => resource.id()),
    ['rules', 'overrides', 'events', 'counters', 'sliding-windows', 'token-buckets', 'leaky-buckets', 'concurrency'],
  )
})

test('in an AdminJS of the host, too, only POST switches or deletes', async (t) => {
  const { AdminJS, ComponentLoader } = await import('adminjs')
  const { buildRouter } = await import('@adminjs/fastify')
  const { createAdminResources } = await import('../../admin/index.js')
  const app = Fastify({ pluginTimeout: 60_000 })
  app.addHook('onRequest', async (request) => {
    Object.assign(request, { session: { adminUser: { email: 'grace@example.org' } } })
  })
  const database = await withLimits(t, app)
  await fillPanel(database)
  const componentLoader = new ComponentLoader()
  await buildRouter(new AdminJS({ componentLoader, resources: await createAdminResources(app, componentLoader) }), app)
  const before = await panelContents(database)
  const changes = ['rules/bulk/disable?recordIds=1', 'rules/records/1/delete']
  for (const path of changes) {
    assert.equal((await app.inject(`/admin/api/resources/${path}`)).statusCode, 405, path)
    await app.inject({ method: 'HEAD', url: `/admin/api/resources/${path}` })
  }
  await app.inject({ method: 'HEAD', url: '/admin/api/resources/rules/records/1/edit' })
  assert.equal(await panelContents(database), before)
  for (const path of changes) {
    const { json } = await app.inject({ method: 'POST', url: `/admin/api/resources/${path}` })
    assert.equal(json().notice.type, 'success', path)
  }
  assert.ok(Object.hasOwn(componentLoader.getComponents(), 'RateLimitInList'))
})

test('neither the pages nor the panel appear in an OpenAPI document of the host', async (t) => {
  const app = Fastify({ pluginTimeout: 60_000 })
  await app.register(fastifySwagger, { openapi: {} })
  await withLimits(t, app)
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
  await app.register(dashboardPlugin, { prefix: '/ops', staff })
  await app.register(adminPlugin, { staff })
  hostRoutes(app)
  await app.ready()
  assert.deepEqual(Object.keys(app.swagger().paths ?? {}), ['/upload', '/form', '/sign-in-as/{user}'])
})
