/** Who may do what through the API: every route, by every method, for every role and for strangers. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import fastifySwagger from '@fastify/swagger'
import type { StaffAnswer } from '../../src/dashboard.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { loadAskedReports } from '../../src/plugin/reports.js'
import { revokeToken } from '../../src/staff/api/token-table.js'
import { createToken } from '../../src/staff/api/token-text.js'
import { mayDo, RIGHTS, type Right, STAFF_ROLES } from '../../src/staff/shell/roles.js'
import { API, type JsonRequest, startWithApi } from '../support/api-app.js'
import type { ApiDocument } from '../support/api-client.js'
import { forAnyDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { moduleUrl } from '../support/modules.js'
import { runProgram } from '../support/optional-peers.js'

const RULE = { pathPattern: '^/api/', rate: '5/m' }
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

type Api = Awaited<ReturnType<typeof startWithApi>>
type Sample = readonly [right: Right, query?: string, json?: unknown]

/** What each operation takes, with requests that are right but for the role. */
const OPERATIONS: Readonly<Record<string, readonly Sample[]>> = {
  listRules: [['read']],
  previewRule: [['read', '', { rule: { ...RULE, name: 'try' } }]],
  getRule: [['read']],
  putRule: [['writeRules', '', RULE]],
  patchRule: [
    ['switchRules', '', { isActive: false }],
    ['writeRules', '', { isActive: true, rate: '6/m' }],
    ['writeRules', '', { name: 'renamed' }],
  ],
  deleteRule: [['writeRules']],
  listOverrides: [['read']],
  createOverride: [['writeOverrides', '', { client: 'user:9', effect: 'deny' }]],
  getOverride: [['read']],
  patchOverride: [['writeOverrides', '', { note: 'a' }]],
  deleteOverride: [['writeOverrides']],
  listChanges: [['read']],
  revertChange: [['writeRules']],
  exportRules: [['read']],
  importRules: [
    ['read', '?dryRun=true', { version: 1, rules: [] }],
    ['writeOverrides', '?keep=true', { version: 1, overrides: [] }],
    ['writeRules', '?keep=true', { version: 1, rules: [], overrides: [] }],
    ['writeRules', '?dryRun=false&keep=true', { version: 1, rules: [] }],
  ],
  listEvents: [['read']],
  ...Object.fromEntries((await loadAskedReports()).map(({ name }): [string, Sample[]] => [name, [['read']]])),
  getOffender: [['read', '?key=ip:192.0.2.1']],
  getClient: [['read', '?client=user:7']],
  getUsage: [['read', '?unit=tokens']],
  explainRequest: [['read', '', { path: '/api/' }]],
  resetCounters: [['resetCounters', '', { key: 'user:7' }]],
  getHealth: [['read']],
}

/** Returns the operations of the document, and the path and the method of each. */
async function readOperations({ call }: Pick<Api, 'call'>) {
  const document: ApiDocument = (await call('GET', '/openapi.json', { as: 'viewer' })).json
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      id: String(Reflect.get(operation, 'operationId')),
    })),
  )
}

/** Creates a function that sends requests without a role, each from another address: refusals are limited. */
function strangers({ call }: Pick<Api, 'call'>) {
  let sent = 0
  return (method: string, path: string, request: JsonRequest = {}) => {
    sent++
    return call(method, path, { ...request, from: `10.1.${sent >> 8}.${sent & 255}` })
  }
}

forAnyDatabase((provider) => {
  test('every operation does for each role what the table says, and nothing for strangers', long(), async (t) => {
    const api = await startWithApi(t, provider)
    const { call, database } = api
    const { rateLimitRule, rateLimitOverride, rateLimitChange } = database.client
    const operations = await readOperations(api)
    assert.deepEqual(operations.map(({ id }) => id).sort(), Object.keys(OPERATIONS).sort())
    const asStranger = strangers(api)
    const contents = async () => JSON.stringify([await rateLimitRule.findMany(), await rateLimitOverride.findMany()])

    for (const { path, method, id } of operations) {
      for (const [right, query = '', json] of OPERATIONS[id] ?? []) {
        await rateLimitRule.deleteMany()
        await rateLimitOverride.deleteMany()
        await rateLimitRule.create({ data: { ...RULE, name: 'api' } })
        const override = await rateLimitOverride.create({ data: { client: 'user:7', effect: 'deny' } })
        const change = await rateLimitChange.findFirstOrThrow({ where: { entity: 'rule' }, orderBy: { id: 'desc' } })
        const row = path.startsWith('/history') ? change.id : override.id
        const address = `${path.replace('{name}', 'api').replace('{id}', String(row))}${query}`
        const before = await contents()
        const refused = await asStranger(method, address, { json })
        assert.equal(refused.status, 401, `${method} ${address}`)
        assert.equal(refused.headers['www-authenticate'], 'Bearer')
        let isDone = false
        for (const role of STAFF_ROLES) {
          const { status, text } = await call(method, address, { json, as: role })
          assert.equal(status === 403, !mayDo(role, right), `${role} ${method} ${address}: ${status} ${text}`)
          if (status === 403) {
            assert.match(text, new RegExp(`role ${role} may not .*needs the role`))
            assert.equal(await contents(), before)
          } else {
            // What one has done, the next finds done.
            assert.ok(status < 300 || (isDone && [404, 409].includes(status)), `${role} ${method} ${address}: ${text}`)
            isDone = true
          }
        }
      }
    }

    // The change of an override is the operator's to revert.
    const { id } = await rateLimitChange.findFirstOrThrow({ where: { entity: 'override' }, orderBy: { id: 'desc' } })
    assert.equal((await call('POST', `/history/${id}/revert`, { as: 'viewer' })).status, 403)
    assert.equal((await call('POST', `/history/${id}/revert`, { as: 'operator' })).status, 204)
  })

  test('a token opens nothing once it is revoked, expired or lowered; none is in a log, a list or an error', async (t) => {
    const { call, database, clock, tokens, log } = await startWithApi(t, provider)
    const { dialect } = database.database
    const table = dialect.table('rate_limit_token')
    const create = (json = { client: 'user:1', effect: 'deny' }) => call('POST', '/overrides', { as: 'operator', json })
    assert.equal((await create()).status, 201)
    await database.database.execute(`UPDATE ${table} SET role = 'viewer' WHERE name = 'operator'`)
    assert.equal((await create()).status, 403)
    await database.database.execute(
      `UPDATE ${table} SET expires_at = ${dialect.fromMs('$1')} WHERE name = 'operator'`,
      [clock.now() + 1_000],
    )
    assert.equal((await call('GET', '/rules', { as: 'operator' })).status, 200)
    clock.advance(1_000)
    const expired = await call('GET', '/rules', { as: 'operator' })
    assert.deepEqual([expired.status, expired.headers['www-authenticate']], [401, 'Bearer error="invalid_token"'])
    await revokeToken(database.database, 'admin')
    assert.equal((await call('GET', '/rules', { as: 'admin' })).status, 401)

    // Failed tokens are limited like sign-ins; one that is right passes, from the same address too.
    const secret = tokens.get('admin') ?? ''
    const wrong = [createToken(), secret, `${secret}x`, 'fsr_', 'secret', `${secret} ${secret}`]
    const from = '192.0.2.9'
    const statuses: number[] = []
    for (let turn = 0; turn < 12; turn++) {
      const authorization = `Bearer ${wrong[turn % 5]}`
      const { status, text, headers } = await call('GET', '/rules', { headers: { authorization }, from })
      statuses.push(status)
      assert.doesNotMatch(text, /fsr_[0-9A-Za-z]/)
      if (status === 429) assert.ok(Number(headers['retry-after']) > 0)
    }
    assert.deepEqual(statuses, [...Array(10).fill(401), 429, 429])
    assert.equal((await call('GET', '/rules', { as: 'viewer', from })).status, 200)
    for (const authorization of [
      'Basic fsr_',
      'Bearer',
      'Bearer ',
      `bearer  ${wrong[5]}`,
      `Bearer ${'x'.repeat(8_000)}`,
    ]) {
      assert.equal((await call('GET', '/rules', { headers: { authorization }, from: '192.0.2.10' })).status, 401)
    }
    assert.equal((await call('GET', `/rules?token=${tokens.get('viewer')}`, { from: '192.0.2.11' })).status, 401)
    assert.doesNotMatch(JSON.stringify(log), /fsr_[0-9A-Za-z]/)
  })
})

test('every address refuses other methods, and strangers before all', async (t) => {
  const api = await startWithApi(t, 'sqlite')
  const { call } = api
  const operations = await readOperations(api)
  const asStranger = strangers(api)
  for (const { path } of operations) {
    // A rule may be named "preview".
    const paths = path === '/rules/preview' ? [path, '/rules/{name}'] : [path]
    for (const other of METHODS) {
      if (operations.some((each) => paths.includes(each.path) && each.method === other)) continue
      const address = path.replace('{name}', 'api').replace('{id}', '1')
      assert.equal((await asStranger(other, address)).status, 401, `${other} ${address}`)
      const { status, headers } = await call(other, address, { as: 'admin' })
      assert.equal(status, 405, `${other} ${address}`)
      assert.ok(headers.allow?.includes(operations.find((each) => each.path === path)?.method ?? '?'))
    }
  }
  for (const path of ['/openapi.json', '/', '/nothing', '/rules.json', '/%2e%2e/rules']) {
    assert.equal((await asStranger('GET', path)).status, 401, path)
    assert.equal((await call('GET', path, { as: 'viewer' })).status, path === '/openapi.json' ? 200 : 404, path)
  }
})

test('the documentation has the table of rights', () => {
  const page = readFileSync(join(PACKAGE_ROOT, 'docs/guides/api.md'), 'utf8')
  const rows = Object.entries(RIGHTS).map(([, { about, from }]) => {
    const cells = STAFF_ROLES.map((role) => (STAFF_ROLES.indexOf(role) >= STAFF_ROLES.indexOf(from) ? 'yes' : ''))
    return `| ${about} | ${cells.join(' | ')} |`
  })
  const table = [`| May | ${STAFF_ROLES.join(' | ')} |`, '|---|---|---|---|', ...rows].join('\n')
  assert.ok(page.includes(table), `The page lacks this table:\n${table}`)
})

test("the host's authorize answers a role, and a page of another site does not use it", async (t) => {
  let answer: StaffAnswer | Error = 'viewer'
  const { call, log, database, origin } = await startWithApi(t, 'sqlite', {
    api: {
      authorize: () => {
        if (answer instanceof Error) throw answer
        return answer
      },
    },
  })
  const create = (client: string, headers: JsonRequest['headers'] = {}) =>
    call('POST', '/overrides', { json: { client, effect: 'deny' }, headers })
  assert.equal((await create('user:1')).status, 403)
  answer = { actor: 'alice', role: 'operator' }
  assert.equal((await create('user:1', { origin })).status, 201)
  assert.equal((await create('user:2', { origin: 'https://evil.example' })).status, 403)
  assert.equal((await create('user:2', { 'sec-fetch-site': 'cross-site' })).status, 403)
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  assert.equal((await call('POST', '/history/1/revert', { headers: form, body: '' })).status, 415)
  answer = 'operator'
  assert.equal((await create('user:2')).status, 201)
  const changes = await database.client.rateLimitChange.findMany({ orderBy: { id: 'asc' } })
  assert.deepEqual(
    changes.map(({ actor, source }) => [actor, source]),
    [
      ['alice', 'api'],
      ['staff', 'api'],
    ],
  )
  // A token goes first.
  assert.equal((await call('DELETE', '/overrides/1', { as: 'viewer' })).status, 403)
  for (const none of [null, undefined, false, new Error('no session')]) {
    answer = none
    assert.equal((await call('GET', '/rules')).status, 401)
  }
  assert.match(JSON.stringify(log), /authorize of apiPlugin failed: the request is refused/)
})

test('without tokens and authorize every request is refused; wrong options fail at start', async (t) => {
  const { call, log } = await startWithApi(t, 'sqlite', { api: { tokens: false } })
  assert.equal((await call('GET', '/rules', { as: 'admin' })).status, 401)
  assert.match(JSON.stringify(log), /accepts no tokens and has no \\"authorize\\"/)
  for (const [api, message] of [
    [{ token: true }, /"token" of apiPlugin does not exist\. Did you mean `tokens`\? Give one of tokens, authorize/],
    [{ tokens: 'yes' }, /"tokens" of apiPlugin is yes: give true or false/],
    [{ authorize: 'admin' }, /"authorize" is not a function/],
    [{ prefix: '' }, /has no prefix/],
  ] as const) {
    // Hosts in JavaScript give what they like.
    await assert.rejects(startWithApi(t, 'sqlite', { api: api as object }), message)
  }
  assert.ok(API)
})

test(
  'the document of the host lacks the API, which has its own; without @fastify/swagger the start says so',
  long(),
  async (t) => {
    const { call, app } = await startWithApi(t, 'sqlite', {
      before: async (host) => {
        await host.register(fastifySwagger, { openapi: {} })
        host.addSchema({ $id: 'Rule', type: 'object', properties: { secret: { type: 'string' } } })
      },
    })
    const { openapi, components } = (await call('GET', '/openapi.json', { as: 'viewer' })).json
    assert.equal(openapi, '3.1.0')
    assert.deepEqual(Object.keys(components.schemas).sort(), ['Change', 'Override', 'OverrideEntry', 'Problem', 'Rule'])
    assert.ok('pathPattern' in components.schemas.Rule.properties)
    assert.deepEqual(Object.keys(app.swagger().paths ?? {}), ['/', '/api/orders'])
    const program = `
    import Fastify from ${JSON.stringify(import.meta.resolve('fastify'))}
    import { apiPlugin } from ${JSON.stringify(moduleUrl('src/api'))}
    import { rateLimitPlugin } from ${JSON.stringify(moduleUrl('src/index'))}
    const app = Fastify()
    await app.register(rateLimitPlugin, { middleware: { backend: 'memory' } })
    try {
      await app.register(apiPlugin, { prefix: '/api' })
      await app.ready()
    } catch (error) {
      console.log(error.message)
    }
  `
    const { stdout } = await runProgram(t, program, { missing: ['@fastify/swagger'] })
    assert.match(
      stdout,
      /apiPlugin needs the package @fastify\/swagger, 9\.9\.0 or later: run "npm install @fastify\/swagger"/,
    )
  },
)
