/** The API, used by the client that is generated from its document. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { StaffRole } from '../../src/staff/shell/roles.js'
import { API, startWithApi } from '../support/api-app.js'
import { type ApiDocument, createApiClient } from '../support/api-client.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { long } from '../support/long.js'
import { ratelimit } from '../support/scripts.js'

const RULE = { pathPattern: '^/api/', rate: '5/m' }
const CLIENT = 'ip:203.0.113.7'

async function start(t: TestContext, provider: Provider) {
  const started = await startWithApi(t, provider)
  const document: ApiDocument = (await started.call('GET', '/openapi.json', { as: 'viewer' })).json
  const clientOf = (role: StaffRole) =>
    createApiClient(`${started.origin}${API}`, started.tokens.get(role) ?? '', document)
  return { ...started, document, admin: clientOf('admin'), operator: clientOf('operator'), viewer: clientOf('viewer') }
}

function tagOf({ response }: { readonly response: Response }): string {
  return response.headers.get('etag') ?? ''
}

forAnyDatabase((provider) => {
  test('rules are created, replaced, changed and deleted, each by who read the last state', async (t) => {
    const { admin, viewer, request, database, app } = await start(t, provider)
    const path = { name: 'api/writes & more, 100 % "ok" {}' }
    const put = (body: object, header: { 'if-match'?: string } = {}) =>
      admin.PUT('/rules/{name}', { params: { path, header }, body: { ...RULE, ...body } })

    assert.equal((await put({}, { 'if-match': '*' })).response.status, 412)
    const created = await put({ description: 'first', priority: 7 })
    assert.equal(created.response.status, 201)
    assert.deepEqual([created.data?.name, created.data?.priority, created.data?.cost], [path.name, 7, 1])
    // The next request obeys.
    assert.equal((await request('/api/orders')).headers['x-ratelimit-limit'], '5')

    const read = await viewer.GET('/rules/{name}', { params: { path } })
    assert.equal(tagOf(read), tagOf(created))
    const replaced = await put({ rate: '6/m' }, { 'if-match': `"other", ${tagOf(read)}` })
    assert.deepEqual([replaced.response.status, replaced.data?.description, replaced.data?.priority], [200, '', 0])
    const late = await put({ rate: '9/m' }, { 'if-match': tagOf(read) })
    assert.deepEqual([late.response.status, late.error?.status], [412, 412])

    const patch = (body: object, tag?: string) =>
      admin.PATCH('/rules/{name}', { params: { path, header: tag === undefined ? {} : { 'if-match': tag } }, body })
    const moment = '2030-01-31T12:00:00.000Z'
    const changed = await patch({ endsAt: moment, block: false }, tagOf(replaced))
    assert.deepEqual([changed.data?.endsAt, changed.data?.block, changed.data?.rate], [moment, false, '6/m'])
    // The tag of a row with a moment finds that row, too.
    assert.equal((await patch({ block: true }, tagOf(changed))).response.status, 200)
    // Of two who saw the same row one is told.
    const seen = tagOf(await viewer.GET('/rules/{name}', { params: { path } }))
    const both = await Promise.all([patch({ rate: '7/m' }, seen), patch({ rate: '8/m' }, seen)])
    assert.deepEqual(both.map(({ response }) => response.status).sort(), [200, 412])

    await put({ rate: '6/m' })
    const renamed = await patch({ name: 'other' })
    assert.equal(renamed.data?.name, 'other')
    assert.equal((await viewer.GET('/rules/{name}', { params: { path } })).response.status, 404)
    await put({})
    assert.equal((await patch({ name: 'other' })).response.status, 409)

    const drop = (name: string, tag: string) =>
      admin.DELETE('/rules/{name}', { params: { path: { name }, header: { 'if-match': tag } } })
    assert.equal((await drop('other', '"wrong"')).response.status, 412)
    assert.equal((await drop('other', tagOf(renamed))).response.status, 204)
    assert.equal((await drop('other', tagOf(renamed))).response.status, 404)
    assert.equal(await app.smartRateLimit.client.rateLimitRule.count(), 1)
    const { actor, source, action } = await database.client.rateLimitChange.findFirstOrThrow({
      orderBy: { id: 'desc' },
    })
    assert.deepEqual([actor, source, action], ['admin', 'api', 'delete'])
  })

  test('a list has every entry once, whatever others insert meanwhile', async (t) => {
    const { viewer, database } = await start(t, provider)
    const names = Array.from({ length: 7 }, (_, number) => `rule-${number}`)
    const create = (name: string, priority: number) =>
      database.client.rateLimitRule.create({ data: { ...RULE, name, priority } })
    for (const [number, name] of names.entries()) await create(name, number % 3)
    const listed: string[] = []
    let cursor: string | undefined
    do {
      const { data } = await viewer.GET('/rules', {
        params: { query: { limit: 2, ...(cursor !== undefined && { cursor }) } },
      })
      listed.push(...(data?.items ?? []).map(({ name }) => name))
      // Before the place of the cursor.
      await create(`a-${listed.length}`, 2)
      cursor = data?.nextCursor ?? undefined
    } while (cursor !== undefined)
    assert.deepEqual(
      listed,
      [2, 5, 1, 4, 0, 3, 6].map((number) => `rule-${number}`),
    )

    await database.client.rateLimitOverride.createMany({
      data: names.map((_, number) => ({ client: `user:${number}`, effect: 'deny' })),
    })
    const first = await viewer.GET('/overrides', { params: { query: { limit: 6 } } })
    await database.client.rateLimitOverride.deleteMany({ where: { client: 'user:5' } })
    const rest = await viewer.GET('/overrides', { params: { query: { cursor: first.data?.nextCursor ?? '' } } })
    assert.deepEqual(
      rest.data?.items.map(({ client }) => client),
      ['user:6'],
    )
    assert.equal(rest.data?.nextCursor, null)
    const one = await viewer.GET('/overrides', { params: { query: { client: 'user:3' } } })
    assert.equal(one.data?.items.length, 1)

    const page = await viewer.GET('/history', { params: { query: { limit: 3, entity: 'override' } } })
    const next = await viewer.GET('/history', {
      params: { query: { limit: 1_000, entity: 'override', cursor: page.data?.nextCursor ?? '' } },
    })
    const ids = [...(page.data?.items ?? []), ...(next.data?.items ?? [])].map(({ id }) => id)
    assert.deepEqual([ids.length, new Set(ids).size], [8, 8])
    assert.deepEqual(
      ids,
      ids.toSorted((a, b) => b - a),
    )
  })

  test('overrides are obeyed at once; the history says who, and through which door, and reverts', async (t) => {
    const { operator, admin, request, database, clock } = await start(t, provider)
    const created = await operator.POST('/overrides', {
      body: { client: 'ip:::ffff:203.0.113.7', effect: 'deny', note: '<b>' },
    })
    assert.equal(created.response.status, 201)
    assert.equal(created.data?.client, CLIENT)
    assert.equal(created.response.headers.get('location'), `${API}/overrides/${created.data?.id}`)
    assert.equal((await request('/', { from: '203.0.113.7' })).status, 403)
    assert.equal(
      (await operator.POST('/overrides', { body: { client: CLIENT, effect: 'allow' } })).response.status,
      409,
    )

    const path = { id: created.data?.id ?? 0 }
    const patch = (body: object, tag: string) =>
      operator.PATCH('/overrides/{id}', { params: { path, header: { 'if-match': tag } }, body })
    const changed = await patch({ effect: '20/m', expiresAt: '2030-01-01T00:00:00Z' }, tagOf(created))
    assert.deepEqual([changed.data?.effect, changed.data?.expiresAt], ['20/m', '2030-01-01T00:00:00.000Z'])
    assert.equal((await patch({ note: 'late' }, tagOf(created))).response.status, 412)
    assert.equal((await request('/', { from: '203.0.113.7' })).headers['x-ratelimit-limit'], '20')

    await database.database.execute(
      `UPDATE ${database.database.dialect.table('rate_limit_override')} SET note = 'by SQL'`,
    )
    const history = async (query: {
      source?: 'api' | 'sql'
      actor?: string
      name?: string
      since?: string
      until?: string
    }) => (await operator.GET('/history', { params: { query } })).data?.items ?? []
    assert.deepEqual(
      (await history({ source: 'sql' })).map(({ actor, action }) => [actor, action]),
      [['', 'update']],
    )
    assert.equal((await history({ source: 'api', actor: 'operator', name: CLIENT })).length, 2)
    assert.deepEqual(await history({ actor: 'admin' }), [])
    const { changedAt = '' } = (await history({ source: 'sql' }))[0] ?? {}
    assert.ok((await history({ since: changedAt })).some(({ source }) => source === 'sql'))
    const before = await history({ until: changedAt })
    assert.deepEqual([before.length > 0, before.filter(({ source }) => source === 'sql')], [true, []])

    const [last] = await history({ source: 'api' })
    const revert = (id: number) => operator.POST('/history/{id}/revert', { params: { path: { id } } })
    assert.equal((await revert(last?.id ?? 0)).response.status, 204)
    assert.equal((await request('/', { from: '203.0.113.7' })).status, 403)
    const again = await revert(last?.id ?? 0)
    assert.deepEqual([again.response.status, again.error?.code], [409, 'FST_RATE_LIMIT_REVERT'])
    assert.equal((await revert(999_999)).response.status, 404)
    const [reverted] = await history({})
    assert.deepEqual([reverted?.source, reverted?.actor], ['api', 'operator'])

    const ended = await operator.DELETE('/overrides/{id}', { params: { path } })
    assert.equal(ended.response.status, 204)
    assert.equal((await operator.DELETE('/overrides/{id}', { params: { path } })).response.status, 404)

    // A rule that was made by an admin is switched by an operator.
    const rule = { params: { path: { name: 'all' } } }
    await admin.PUT('/rules/{name}', { ...rule, body: { pathPattern: '.', rate: '0/m' } })
    assert.equal((await request('/')).status, 429)
    assert.equal((await operator.PATCH('/rules/{name}', { ...rule, body: { isActive: false } })).response.status, 200)
    clock.advance(2_000)
    assert.equal((await request('/')).status, 200)
  })

  test('a file is exported, compared and imported as by the command', long(), async (t) => {
    const { admin, operator, viewer, database } = await start(t, provider)
    await database.client.rateLimitRule.createMany({
      data: Array.from({ length: 250 }, (_, number) => ({ ...RULE, name: `rule-${number}`, description: 'é"\\' })),
    })
    const exported = await viewer.GET('/export')
    assert.equal(exported.data?.rules.length, 250)
    const schema = provider === 'sqlite' ? [] : ['--schema', database.schema]
    const env = { RATELIMIT_DATABASE_URL: database.url }
    const command = (...args: string[]) => ratelimit(['rules', ...args, ...schema, '--json'], { env, input: text })
    const document = {
      version: 1 as const,
      rules: [
        { name: 'rule-7', ...RULE, rate: '7/m' },
        { name: 'new', ...RULE },
      ],
      overrides: [
        { client: CLIENT, effect: 'deny' },
        { client: 'user:1', effect: 'deny', expiresAt: '2020-01-01T00:00:00Z' },
      ],
    }
    const text = JSON.stringify(document)
    assert.deepEqual(exported.data, JSON.parse((await command('export')).stdout))

    const compare = await viewer.POST('/import', { params: { query: { dryRun: true } }, body: document })
    assert.deepEqual(compare.data, JSON.parse((await command('import', '-', '--dry-run')).stdout))
    assert.deepEqual(
      [compare.data?.rules.deleted.length, compare.data?.expired, compare.data?.applied],
      [249, 1, false],
    )
    assert.equal((await viewer.POST('/import', { body: document })).response.status, 403)
    assert.equal((await operator.POST('/import', { body: document })).response.status, 403)
    assert.equal(await database.client.rateLimitRule.count(), 250)

    const kept = await admin.POST('/import', { params: { query: { keep: true } }, body: document })
    assert.deepEqual([kept.data?.applied, kept.data?.rules.deleted.length], [true, 0])
    const same = await admin.POST('/import', { params: { query: { keep: true } }, body: document })
    assert.deepEqual([same.data?.rules.created.length, same.data?.rules.unchanged], [0, 2])
    // Overrides alone are the operator's.
    const overrides = await operator.POST('/import', { body: { version: 1, overrides: [] } })
    assert.equal(overrides.data?.overrides.deleted.length, 1)
    const changes = await viewer.GET('/history', { params: { query: { source: 'import' } } })
    assert.deepEqual(new Set(changes.data?.items.map(({ actor }) => actor)), new Set(['admin', 'operator']))
  })

  test('an override is given its duration instead of its expiry', async (t) => {
    const { operator, clock } = await start(t, provider)
    const brief = await operator.POST('/overrides', { body: { client: '192.0.2.9', effect: 'deny', for: '2h' } })
    assert.deepEqual(
      [brief.data?.client, brief.data?.expiresAt],
      ['ip:192.0.2.9', new Date(clock.now() + 7_200_000).toISOString()],
    )
  })

  test('events, reports, previews, explanations and counters are those of the app', async (t) => {
    const { viewer, operator, admin, request, app, clock } = await start(t, provider)
    await admin.PUT('/rules/{name}', {
      params: { path: { name: 'api' } },
      body: { pathPattern: '^/api/', rate: '2/m' },
    })
    for (let count = 0; count < 4; count++) await request('/api/orders?secret=1', { from: '203.0.113.7' })
    await request('/', { from: '203.0.113.8' })

    const first = await viewer.GET('/events', { params: { query: { limit: 2 } } })
    const rest = await viewer.GET('/events', { params: { query: { cursor: first.data?.nextCursor ?? '' } } })
    const events = [...(first.data?.items ?? []), ...(rest.data?.items ?? [])]
    assert.deepEqual(
      events.map(({ policy, outcome, path, allowed }) => [policy, outcome, path, allowed]).toReversed(),
      [
        ['api', 'allowed', '/api/orders', true],
        ['api', 'allowed', '/api/orders', true],
        ['api', 'over_limit', '/api/orders', false],
        ['api', 'over_limit', '/api/orders', false],
        ['default', 'allowed', '/', true],
      ],
    )
    const ofKey = await viewer.GET('/events', { params: { query: { key: 'ip:203.0.113.8' } } })
    assert.equal(ofKey.data?.items.length, 1)

    const { analytics, rules, explain } = app.smartRateLimit
    const summary = await viewer.GET('/reports/summary')
    assert.deepEqual(summary.data, await analytics.getTrafficSummary())
    const offenders = await viewer.GET('/reports/offenders', { params: { query: { days: 1, limit: 1 } } })
    assert.deepEqual(offenders.data?.offenders, await analytics.getTopOffenders({ days: 1, limit: 1 }))
    const hits = await viewer.GET('/reports/rule-hits')
    assert.deepEqual(hits.data?.rule_hits, [{ rule_name: 'api', hits: 4, blocked: 2 }])
    const key = 'rule:api:203.0.113.7'
    const offender = await viewer.GET('/reports/offender', { params: { query: { key, recent: 1 } } })
    assert.deepEqual(offender.data, await analytics.getOffenderDetail({ key, recent: 1 }))
    const clients = await viewer.GET('/reports/clients', { params: { query: { by: 'requests' } } })
    assert.deepEqual(clients.data?.clients, await analytics.getTopClients({ by: 'requests' }))
    const client = await viewer.GET('/reports/client', { params: { query: { client: CLIENT } } })
    assert.deepEqual(client.data, JSON.parse(JSON.stringify(await analytics.getClient({ client: CLIENT }))))
    const traffic = await viewer.GET('/reports/traffic', { params: { query: { days: 1, rule: 'api' } } })
    assert.equal(
      traffic.data?.bars.reduce((sum, { total }) => sum + total, 0),
      4,
    )

    const since = new Date(clock.now() - 3_600_000).toISOString()
    const lastHour = { params: { query: { since } } }
    assert.deepEqual((await viewer.GET('/reports/summary', lastHour)).data?.total, summary.data?.total)
    const before = { params: { query: { since: '2020-01-01T00:00:00Z', until: '2020-01-01T06:00:00Z' } } }
    assert.equal((await viewer.GET('/reports/summary', before)).data?.total, 0)
    assert.equal((await viewer.GET('/reports/summary', before)).data?.days, 0.25)
    assert.deepEqual((await viewer.GET('/reports/clients', before)).data?.clients, [])
    assert.equal((await viewer.GET('/reports/traffic', before)).data?.days, 0.25)

    const candidate = { name: 'try', pathPattern: '^/', rate: '1/m', priority: 9 }
    const preview = await viewer.POST('/rules/preview', { body: { rule: candidate, hours: 2 } })
    assert.deepEqual(preview.data, await rules.preview(candidate, { hours: 2 }))
    const condition = "user.plan == 'free'"
    const { data: unsaid } = await viewer.POST('/rules/preview', {
      body: { rule: { ...candidate, condition }, hours: 2 },
    })
    assert.match(
      unsaid?.sentence ?? '',
      /^Nothing can be said about .*: rule "try" reads user\.plan, which the log does/,
    )
    assert.deepEqual(
      unsaid?.unknown.map(({ rule, field, lacks }) => [rule, field, lacks]),
      [['try', 'user.plan', 'log']],
    )
    const trial = { path: '/api/orders', ip: '203.0.113.7' }
    const explained = await viewer.POST('/explain', { body: trial })
    assert.deepEqual(explained.data, await explain(trial))
    assert.equal(explained.data?.limits.find(({ policy }) => policy === 'api')?.remaining, 0)
    assert.equal((await operator.POST('/counters/reset', { body: { key } })).response.status, 204)
    assert.equal((await request('/api/orders', { from: '203.0.113.7' })).status, 200)
    assert.equal((await request('/api/orders', { from: '203.0.113.7' })).status, 200)
    assert.equal((await request('/api/orders', { from: '203.0.113.7' })).status, 429)
    // All counters of the client, by a bare address.
    assert.equal((await operator.POST('/counters/reset', { body: { client: '203.0.113.7' } })).response.status, 204)
    assert.equal((await request('/api/orders', { from: '203.0.113.7' })).status, 200)
    const health = await viewer.GET('/health')
    assert.deepEqual([health.data?.ok, health.data?.ready], [true, true])
  })
})
