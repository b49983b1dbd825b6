/** Roles that are lost while a request is under way. */
import assert from 'node:assert/strict'
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { type TestContext, test } from 'node:test'
import type { StaffAnswer, StaffRole } from '../../src/dashboard.js'
import type { RateLimitClient } from '../../src/index.js'
import { revokeToken } from '../../src/staff/api/token-table.js'
import { API, startWithApi } from '../support/api-app.js'
import { portOf } from '../support/build-app.js'
import { act, openClient } from '../support/client-forms.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { FROM_PANEL, formOf, PANEL, startWithPanel } from '../support/panel-app.js'
import { startWithStaff } from '../support/staff-app.js'

const RULE = { pathPattern: '^/api/', rate: '5/m' }
const ROWS = 3_000

/** An API whose requests can be stopped between their headers and their body. */
async function start(t: TestContext, provider: Provider, authorize?: () => StaffAnswer) {
  let arrived = 0
  const started = await startWithApi(t, provider, {
    ...(authorize && { api: { authorize } }),
    before: async (app) => {
      app.addHook('preParsing', async () => {
        arrived++
      })
    },
  })

  /** Sends a request, and the end of its body when `meanwhile` is done. */
  async function slowly(
    meanwhile: () => Promise<unknown>,
    { method, path, json, as }: { method: string; path: string; json: unknown; as?: StaffRole },
  ) {
    const body = JSON.stringify(json)
    const before = arrived
    const sent = httpRequest({
      host: '127.0.0.1',
      port: portOf(started.app),
      method,
      path: `${API}${path}`,
      headers: {
        'content-type': 'application/json',
        'content-length': body.length,
        ...(as !== undefined && { authorization: `Bearer ${started.tokens.get(as)}` }),
      },
    })
    const answered = answerTo(sent)
    sent.write(body.slice(0, 2))
    await eventually('the server has read the headers', async () => arrived > before)
    await meanwhile()
    sent.end(body.slice(2))
    const response = await answered
    response.resume()
    return response.statusCode
  }

  return { ...started, slowly }
}

function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve).once('error', reject)
  })
}

function written({ rateLimitRule, rateLimitOverride, rateLimitChange }: RateLimitClient): Promise<number[]> {
  return Promise.all([rateLimitRule.count(), rateLimitOverride.count(), rateLimitChange.count()])
}

forAnyDatabase((provider) => {
  test('a role that is lost while a body arrives writes nothing', async (t) => {
    const { slowly, database, call, clock } = await start(t, provider)
    const { dialect } = database.database
    const tokens = dialect.table('rate_limit_token')
    const set = (what: string) => database.database.execute(`UPDATE ${tokens} SET ${what} WHERE name = 'admin'`)
    await call('PUT', '/rules/a', { as: 'admin', json: RULE })
    const before = await written(database.client)
    const writes = [
      { method: 'PUT', path: '/rules/b', json: RULE },
      { method: 'PATCH', path: '/rules/a', json: { rate: '9/m' } },
      { method: 'DELETE', path: '/rules/a', json: null },
      { method: 'POST', path: '/history/1/revert', json: null },
      { method: 'POST', path: '/import', json: { version: 1, rules: [] } },
    ]
    for (const write of writes) {
      assert.equal(await slowly(() => set("role = 'viewer'"), { ...write, as: 'admin' }), 403, write.path)
      await set("role = 'admin'")
    }
    for (const write of writes) {
      const expire = () => set(`expires_at = ${dialect.fromMs(String(clock.now()))}`)
      assert.equal(await slowly(expire, { ...write, as: 'admin' }), 401, write.path)
      await set('expires_at = NULL')
    }
    const override = { method: 'POST', path: '/overrides', json: { client: 'user:1', effect: 'deny' } }
    const revoke = () => revokeToken(database.database, 'operator')
    assert.equal(await slowly(revoke, { ...override, as: 'operator' }), 401)
    assert.deepEqual(await written(database.client), before)
    assert.equal(await slowly(async () => undefined, { method: 'PUT', path: '/rules/b', json: RULE, as: 'admin' }), 201)
  })

  test('an export that has begun goes on to its end, as of its beginning; the next one is refused', async (t) => {
    const { database, call, app, tokens } = await start(t, provider)
    const { dialect } = database.database
    const rows = Array.from({ length: ROWS }, (_, place) => [`user:${place}`, 'n'.repeat(900)])
    await database.database.execute(
      `INSERT INTO ${dialect.table('rate_limit_override')} (client, effect, note)
       SELECT ${dialect.jsonField(0, 'text')}, 'deny', ${dialect.jsonField(1, 'text')} FROM ${dialect.jsonRows()}`,
      [JSON.stringify(rows)],
    )
    const authorization = `Bearer ${tokens.get('viewer')}`
    const sent = httpRequest({
      host: '127.0.0.1',
      port: portOf(app),
      path: `${API}/export`,
      headers: { authorization },
    })
    const answered = answerTo(sent)
    sent.end()
    const response = await answered
    await revokeToken(database.database, 'viewer')
    assert.equal((await call('GET', '/export', { as: 'viewer' })).status, 401)
    let text = ''
    for await (const chunk of response.setEncoding('utf8')) text += chunk
    assert.equal(JSON.parse(text).overrides.length, ROWS)
  })
})

test("the host's authorize is asked again when a body has arrived", async (t) => {
  let answer: StaffAnswer = 'admin'
  const { slowly, database } = await start(t, 'sqlite', () => answer)
  const write = { method: 'PUT', path: '/rules/a', json: RULE }
  const lose = (next: StaffAnswer) => async () => {
    answer = next
  }
  assert.equal(await slowly(lose('operator'), write), 403)
  answer = 'admin'
  assert.equal(await slowly(lose(null), write), 401)
  assert.deepEqual(await written(database.client), [0, 0, 0])
})

test('the pages ask again, too, before they write', async (t) => {
  let left = Number.POSITIVE_INFINITY
  const isStaff = () => (left-- > 0 ? ({ actor: 'alice', role: 'admin' } as const) : null)
  const dashboard = await startWithStaff(t, 'sqlite', { isStaff }, { useDynamicRules: true })
  const page = await openClient(dashboard.request, 'ip:203.0.113.7')
  left = 1
  assert.equal((await act(dashboard.request, page, 'block')).status, 403)
  const panel = await startWithPanel(t, 'sqlite', { admin: { isStaff } })
  const { body, contentType } = await formOf({ ...RULE, name: 'a' })
  const save = () =>
    panel.request(`${PANEL}/api/resources/rules/actions/new`, {
      method: 'POST',
      body,
      headers: { ...FROM_PANEL, 'content-type': contentType },
    })
  left = 1
  assert.equal((await save()).status, 403)
  assert.deepEqual(await written(dashboard.app.smartRateLimit.client), [0, 0, 0])
  assert.deepEqual(await written(panel.app.smartRateLimit.client), [0, 0, 0])
  left = Number.POSITIVE_INFINITY
  assert.equal((await save()).status, 200)
  assert.deepEqual(await written(panel.app.smartRateLimit.client), [1, 0, 1])
})
