/** What is wrong with a request to the API is said, by field and with the remedy, and nothing is written. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { apiPlugin } from '../../src/api.js'
import { toCursor } from '../../src/staff/api/cursor.js'
import { type JsonRequest, startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'
import { long } from '../support/long.js'

const RULE = { pathPattern: '^/api/', rate: '5/m' }
const NUL = encodeURIComponent('a\0b')

type Case = readonly [
  method: string,
  path: string,
  request: JsonRequest,
  status: number,
  /** The wrong fields, each with a part of its detail. */
  fields?: Readonly<Record<string, RegExp>>,
]

function manyHeaders(count: number): object {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`x-${index}`, '1']))
}

const CASES: readonly Case[] = [
  ['PUT', '/rules/api', { body: '{"rate":' }, 400],
  ['PUT', '/rules/api', { body: '' }, 400],
  ['PUT', '/rules/api', {}, 400, { '': /is missing: send JSON/ }],
  ['PUT', '/rules/api', { json: null }, 400, { '': /is missing/ }],
  ['PUT', '/rules/api', { json: [RULE] }, 400, { '': /must be object/ }],
  ['PUT', '/rules/api', { json: 'x' }, 400, { '': /must be object/ }],
  ['PUT', '/rules/api', { body: '{"__proto__":{"rate":"1/m"}}' }, 400],
  ['PUT', '/rules/api', { json: RULE, headers: { 'content-type': 'text/plain' } }, 415],
  ['PUT', '/rules/api', { json: RULE, headers: { 'content-type': 'application/x-www-form-urlencoded' } }, 415],
  ['PUT', '/rules/api', { json: { ...RULE, description: 'x'.repeat(300_000) } }, 413],
  [
    'PUT',
    '/rules/api',
    { json: { rate: '5/q', cost: 'many', block: 'no', startsAt: 'soon', limit: 5 } },
    400,
    {
      pathPattern: /is required/,
      rate: /it has the period "q"/,
      cost: /must be an integer/,
      block: /must be true or false/,
      startsAt: /is not a valid moment/,
      limit: /does not exist: give one of name, description/,
    },
  ],
  [
    'PUT',
    '/rules/api',
    { json: { ...RULE, name: 'other' } },
    400,
    { name: /differs from the name in the address, "api": leave it out/ },
  ],
  // It contradicts another field.
  ['PUT', '/rules/api', { json: { ...RULE, cost: 6 } }, 400, { cost: /./ }],
  ['PUT', '/rules/a%3Ab', { json: RULE }, 400, { name: /printable ASCII/ }],
  ['PUT', `/rules/${NUL}`, { json: RULE }, 400, { name: /contains NUL/ }],
  ['PUT', `/rules/${'x'.repeat(101)}`, { json: RULE }, 400, { name: /100/ }],
  ['GET', `/rules/${NUL}`, {}, 400, { name: /contains NUL/ }],
  ['GET', '/rules/', {}, 400, { name: /./ }],
  ['PATCH', '/rules/stored', { json: {} }, 400, { '': /must not have fewer than 1/ }],
  ['PATCH', '/rules/stored', { json: { rate: null, id: 1 } }, 400, { rate: /./, id: /does not exist/ }],
  // It contradicts a stored field.
  ['PATCH', '/rules/stored', { json: { cost: 6 } }, 400, { cost: /./ }],
  ['PATCH', '/rules/none', { json: { rate: '5/m' } }, 404],
  [
    'PATCH',
    '/rules/stored',
    { json: { rate: '5/m' }, headers: { 'if-match': 'abc' } },
    400,
    { 'if-match': /is not a valid ETag/ },
  ],
  ['PATCH', '/rules/stored', { json: { rate: '5/m' }, headers: { 'if-match': '"abc"' } }, 412],
  ['DELETE', '/rules/stored', { headers: { 'if-match': 'W/"abc"' } }, 412],
  ['DELETE', '/rules/stored', { json: {}, headers: { 'content-length': 2 } }, 400, { '': /is not accepted here/ }],
  ['GET', '/rules?limit=0', {}, 400, { limit: /must be >= 1/ }],
  ['GET', '/rules?limit=1001', {}, 400, { limit: /must be <= 1000/ }],
  [
    'GET',
    '/rules?limit=ten&page=2',
    {},
    400,
    { limit: /must be integer/, page: /does not exist: give one of limit, cursor/ },
  ],
  ['GET', '/rules?limit=1&limit=2', {}, 400, { limit: /must be integer/ }],
  ['GET', '/rules?cursor=abc', {}, 400, { cursor: /is not a valid cursor of this list/ }],
  ['GET', `/rules?cursor=${'x'.repeat(3_000)}`, {}, 400, { cursor: /./ }],
  ['GET', '/rules/stored?limit=1', {}, 400, { limit: /leave it out/ }],
  [
    'POST',
    '/rules/preview',
    { json: { ...RULE, name: 'x' } },
    400,
    {
      rule: /is required/,
      name: /./,
      pathPattern: /./,
      rate: /does not exist: give one of rule, hours/,
    },
  ],
  [
    'POST',
    '/rules/preview',
    { json: { rule: { cost: 'many', limit: 5 } } },
    400,
    {
      'rule.name': /is required/,
      'rule.pathPattern': /is required/,
      'rule.rate': /is required/,
      'rule.cost': /must be an integer/,
      'rule.limit': /does not exist: give one of name, description/,
    },
  ],
  ['POST', '/rules/preview', { json: { rule: { ...RULE, name: 'x', cost: 6 } } }, 400, { 'rule.cost': /./ }],
  ['POST', '/rules/preview', { json: { rule: { ...RULE, name: 'x' }, hours: 721 } }, 400, { hours: /./ }],
  [
    'POST',
    '/rules/preview',
    { json: { rule: { ...RULE, name: 'x', rate: 'x' } } },
    400,
    { 'rule.rate': /Invalid rate/ },
  ],
  [
    'POST',
    '/overrides',
    { json: { client: '10.0.0', effect: 'ban' } },
    400,
    { client: /is not a valid client/, effect: /is not a valid effect/ },
  ],
  [
    'POST',
    '/overrides',
    { json: { client: 'user:7', effect: 'deny', expiresAt: '2020-01-01T00:00:00Z' } },
    400,
    { expiresAt: /is in the past/ },
  ],
  [
    'POST',
    '/overrides',
    { json: { client: 'user:7', effect: 'deny', expiresAt: '2h' } },
    400,
    { expiresAt: /"2h" is a duration: give it as "for" instead/ },
  ],
  [
    'POST',
    '/overrides',
    { json: { client: 'user:\0', effect: 'deny', note: '\ud800' } },
    400,
    { client: /./, note: /./ },
  ],
  ['GET', `/overrides?client=${NUL}`, {}, 400, { client: /contains NUL/ }],
  ['GET', '/overrides/0', {}, 400, { id: /must be >= 1/ }],
  ['GET', '/overrides/x', {}, 400, { id: /must be integer/ }],
  ['GET', '/overrides/99999999999', {}, 400, { id: /must be <= / }],
  ['GET', '/overrides/1e3', {}, 400, { id: /must be integer/ }],
  ['GET', '/overrides/77', {}, 404],
  ['DELETE', '/overrides/77', { headers: { 'if-match': '"abc"' } }, 404],
  ['GET', '/history?source=raw', {}, 400, { source: /./ }],
  ['GET', '/history?since=yesterday', {}, 400, { since: /is not a valid moment/ }],
  ['GET', `/history?actor=${NUL}`, {}, 400, { actor: /contains NUL/ }],
  ['POST', '/history/9007199254740993/revert', {}, 400, { id: /./ }],
  ['POST', '/import', { json: [] }, 400, { '': /must be object/ }],
  ['POST', '/import', { json: { version: 2, rules: [] } }, 400, { version: /this version of the package reads 1/ }],
  [
    'POST',
    '/import',
    {
      json: {
        version: 1,
        rules: [
          { ...RULE, name: 'a' },
          { ...RULE, rate: 5, name: 'b' },
        ],
        nope: 1,
      },
    },
    400,
    { 'rules[1].rate': /./, nope: /does not exist/ },
  ],
  ['POST', '/import?dryRun=maybe', { json: { version: 1, rules: [] } }, 400, { dryRun: /must be boolean/ }],
  ['POST', '/import?dry_run=true', { json: { version: 1, rules: [] } }, 400, { dry_run: /give one of dryRun, keep/ }],
  ['GET', `/events?key=${NUL}`, {}, 400, { key: /contains NUL/ }],
  ['GET', `/events?client=${NUL}&policy=${NUL}`, {}, 400, { client: /contains NUL/, policy: /contains NUL/ }],
  ['GET', '/events?outcome=refused', {}, 400, { outcome: /must be one of allowed, over_limit, denied, unavailable/ }],
  ['GET', '/events?allowed=yes', {}, 400, { allowed: /must be boolean/ }],
  [
    'GET',
    '/events?since=yesterday&until=2026-02-31T00:00:00Z',
    {},
    400,
    { since: /is not a valid moment/, until: /is not a valid moment/ },
  ],
  ['GET', '/events?since=0000-01-01T00:00:00Z', {}, 400, { since: /is not a valid moment/ }],
  ['GET', '/events?client=%20', {}, 400, { client: /cannot be searched: give ip:203\.0\.113\.7 or user:7/ }],
  ['GET', `/reports/offender?key=${NUL}`, {}, 400, { key: /contains NUL/ }],
  ['GET', `/reports/client?client=user:${NUL}`, {}, 400, { client: /contains NUL/ }],
  ['GET', `/reports/traffic?path=${NUL}&rule=${NUL}`, {}, 400, { path: /contains NUL/, rule: /contains NUL/ }],
  ['GET', '/reports/offender', {}, 400, { key: /is required/ }],
  ['GET', '/reports/summary?days=0', {}, 400, { days: /must be > 0/ }],
  ...['summary', 'offenders', 'rule-hits', 'clients', 'traffic', 'offender?key=a', 'client?client=user:1'].flatMap(
    (report): Case[] => {
      const start = `/reports/${report}${report.includes('?') ? '&' : '?'}`
      return [
        ['GET', `${start}days=2&since=2027-01-31T12:00:00Z`, {}, 400, { since: /"days" and "since" are both set/ }],
        ['GET', `${start}until=2027-01-31T12:00:00Z`, {}, 400, { since: /"until" is set without "since"/ }],
        ['GET', `${start}since=2h`, {}, 400, { since: /give one such as 2027-01-31T12:00:00Z/ }],
      ]
    },
  ),
  ['GET', '/reports/summary?days=NaN', {}, 400, { days: /must be number/ }],
  ['GET', '/reports/clients?by=name', {}, 400, { by: /must be one of refused, requests/ }],
  ['POST', '/explain', { json: { path: 'login' } }, 400, { path: /^is "login": give a path such as \/login$/ }],
  ['POST', '/explain', { json: { path: '/', ip: 'x' } }, 400, { ip: /^is "x": give an address/ }],
  ['POST', '/explain', { json: { path: '/', headers: manyHeaders(2_000) } }, 200],
  [
    'POST',
    '/explain',
    { json: { path: '/', headers: manyHeaders(2_001) } },
    400,
    { headers: /^is of 2001 headers: give at most 2000$/ },
  ],
  [
    'POST',
    '/explain',
    { json: { path: '/', headers: { 'x-a': Array(2_001).fill('') } } },
    400,
    { headers: /^is of 2001 headers: give at most 2000$/ },
  ],
  ['POST', '/explain', { json: { path: '/', method: 'G T' } }, 400, { method: /give a method such as GET/ }],
  [
    'POST',
    '/explain',
    { json: { path: '/\ud800\0', user: '\0', headers: { 'x-a': ['1', '2'], 'b\0': '\ud800' } } },
    200,
  ],
  ['POST', '/explain', { json: { path: '/', user: { id: ['x'] } } }, 400],
  [
    'POST',
    '/overrides',
    { json: { client: '192.0.2.9', effect: 'deny', for: '2h', expiresAt: '2099-01-01T00:00:00Z' } },
    400,
    { for: /is given with "expiresAt": give one of them/ },
  ],
  [
    'POST',
    '/overrides',
    { json: { client: '192.0.2.9', effect: 'deny', for: 'long' } },
    400,
    { for: /is not a valid duration: give 30m, 2h/ },
  ],
  ['POST', '/counters/reset', { json: { key: '' } }, 400, { key: /./ }],
  ['POST', '/counters/reset', { json: { key: 'user:\0\ud800' } }, 204],
  [
    'POST',
    '/counters/reset',
    { json: { key: 'user:7', keys: [] } },
    400,
    { keys: /does not exist: give one of client, key/ },
  ],
  ['POST', '/counters/reset', { json: {} }, 400, { client: /is required/ }],
  ['POST', '/counters/reset', { json: { key: 'a', client: 'user:7' } }, 400, { client: /with "key"/ }],
  ['POST', '/counters/reset', { json: { client: 'nobody' } }, 400, { client: /is not a client/ }],
]

/** Positions that no page ends at, in cursors whose checksums are right. */
const MADE_UP: readonly (readonly [path: string, list: string, position: readonly unknown[]])[] = [
  ['/rules', 'rules', [1e300, 'a']],
  ['/rules', 'rules', [1, 'a\0']],
  ['/overrides', 'overrides ', [1e300]],
  ['/events', 'events {}', [1e300, 1]],
  ['/events', 'events {}', [-1e15, 1]],
  ['/events', 'events {}', [1, -1e300]],
  ['/history', 'history [null,null,null,null,null,null]', [1e300]],
]
/** Positions at the very ends of the lists. */
const FARTHEST: typeof MADE_UP = [
  ['/rules', 'rules', [Number.MAX_SAFE_INTEGER, '\ud800']],
  ['/overrides', 'overrides ', [Number.MIN_SAFE_INTEGER]],
  ['/events', 'events {}', [-210_000_000_000_000, 1]],
  ['/events', 'events {}', [8_640_000_000_000_000, Number.MAX_SAFE_INTEGER]],
  ['/history', 'history [null,null,null,null,null,null]', [Number.MAX_SAFE_INTEGER]],
]

forAnyDatabase((provider) => {
  test('every wrong field of a request is named, and nothing is written', long(), async (t) => {
    const { call, database, log } = await startWithApi(t, provider)
    await database.client.rateLimitRule.create({ data: { ...RULE, name: 'stored' } })
    await database.client.rateLimitOverride.createMany({
      data: [1, 2, 3].map((id) => ({ client: `user:${id}`, effect: 'deny' })),
    })
    const contents = async () =>
      JSON.stringify([
        await database.client.rateLimitRule.findMany(),
        await database.client.rateLimitOverride.findMany(),
        await database.client.rateLimitChange.count(),
      ])
    const before = await contents()
    const check = async ([method, path, request, status, fields = {}]: Case) => {
      const answer = await call(method, path, { as: 'admin', ...request })
      const name = `${method} ${path.slice(0, 80)}: ${answer.text.slice(0, 500)}`
      assert.equal(answer.status, status, name)
      if (status < 400) return
      assert.equal(answer.headers['content-type'], 'application/problem+json; charset=utf-8', name)
      const { errors = [], ...problem } = answer.json
      assert.deepEqual([problem.type, problem.status, typeof problem.detail], ['about:blank', status, 'string'], name)
      if (status === 413) assert.match(problem.detail, /send at most 256 KiB, or 16 MiB to import/)
      const wrong = new Map<string, string>(
        errors.map(({ field, detail }: Readonly<Record<string, string>>) => [field ?? '', detail ?? '']),
      )
      if (Object.keys(fields).length > 0) assert.deepEqual([...wrong.keys()].sort(), Object.keys(fields).sort(), name)
      for (const [field, detail] of Object.entries(fields)) assert.match(wrong.get(field) ?? '', detail, name)
    }
    for (const each of CASES) await check(each)

    // A cursor is for its own list and filter, and is not made up.
    const cursorOf = async (path: string) => (await call('GET', path, { as: 'admin' })).json.nextCursor
    const ofOverrides: string = await cursorOf('/overrides?limit=1')
    const [text = '', checksum = ''] = ofOverrides.split('.')
    const madeUp = `${Buffer.from('[0]').toString('base64url')}.${checksum}`
    const ofHistory = await cursorOf('/history?limit=1&entity=override')
    for (const path of [
      `/rules?cursor=${ofOverrides}`,
      `/overrides?client=user:1&cursor=${ofOverrides}`,
      `/overrides?cursor=${madeUp}`,
      `/overrides?cursor=${text}`,
      `/history?cursor=${ofHistory}`,
      `/history?entity=rule&cursor=${ofHistory}`,
      `/history?entity=override&until=2027-01-31T12:00:00Z&cursor=${ofHistory}`,
      `/events?cursor=${ofHistory}`,
      ...MADE_UP.map(([path, list, position]) => `${path}?cursor=${toCursor(list, position)}`),
    ]) {
      await check(['GET', path, {}, 400, { cursor: /is not a valid cursor of this list: give the nextCursor/ }])
    }
    for (const [path, list, position] of FARTHEST)
      await check(['GET', `${path}?cursor=${toCursor(list, position)}`, {}, 200])
    // Many fields keep no other request waiting.
    const unknown = Object.fromEntries(Array.from({ length: 25_000 }, (_, index) => [`k${index.toString(36)}`, 0]))
    for (const [method, path, json] of [
      ['POST', '/rules/preview', { rule: unknown }],
      ['PATCH', '/rules/stored', unknown],
      ['POST', '/import?dryRun=true', { version: 1, rules: [unknown] }],
      ['POST', '/import?dryRun=true', { version: 1, ...unknown }],
    ] as const) {
      const usage = process.cpuUsage()
      const { status, json: problem } = await call(method, path, { as: 'admin', json })
      const { user, system } = process.cpuUsage(usage)
      assert.ok(user + system < 1_000_000, `${method} ${path} took ${user + system} µs`)
      assert.equal(status, 400)
      assert.ok(problem.errors.length >= 100 && problem.errors.length < 110, `${problem.errors.length}`)
    }
    await check([
      'POST',
      '/import?dryRun=true',
      { body: `{"version":${'['.repeat(100_000)}${']'.repeat(100_000)}}` },
      400,
      { version: /^is another one: / },
    ])
    const huge = JSON.stringify({ version: 1, rules: [], pad: 'x'.repeat(17 * 1024 * 1024) })
    await check(['POST', '/import', { body: huge }, 413])
    assert.equal(await contents(), before)
    assert.deepEqual(
      log.filter(({ level }) => Number(level) >= 50),
      [],
    )
  })

  test('a rule has its address also where it is named like another route', async (t) => {
    const { call } = await startWithApi(t, provider)
    const as = 'admin'
    assert.equal((await call('PUT', '/rules/preview', { as, json: RULE })).status, 201)
    assert.equal((await call('PATCH', '/rules/preview', { as, json: { rate: '7/m' } })).json.rate, '7/m')
    assert.equal((await call('GET', '/rules/preview', { as: 'viewer' })).json.name, 'preview')
    assert.equal((await call('HEAD', '/rules/preview', { as })).status, 200)
    const preview = await call('POST', '/rules/preview', { as, json: { rule: { ...RULE, name: 'preview' } } })
    assert.equal(preview.status, 200, preview.text)
    assert.equal((await call('DELETE', '/rules/preview', { as: 'operator' })).status, 403)
    assert.equal((await call('DELETE', '/rules/preview', { as })).status, 204)
    assert.equal((await call('GET', '/rules/preview', { as })).status, 404)
    const other = await call('OPTIONS', '/rules/preview', { as })
    assert.deepEqual([other.status, other.headers.allow], [405, 'POST, GET, HEAD, PUT, PATCH, DELETE'])
  })

  test('where tables are missing every answer names the remedy, and the log has the database', async (t) => {
    const { call, database, log } = await startWithApi(t, provider)
    const { dialect } = database.database
    await database.database.execute(`DROP TABLE ${dialect.table('rate_limit_rule')}`)
    for (const [method, path, json] of [
      ['GET', '/rules'],
      ['PUT', '/rules/api', RULE],
      ['GET', '/export'],
    ] as const) {
      const answer = await call(method, path, { as: 'admin', json })
      assert.equal(answer.status, 503, `${method} ${path}: ${answer.text}`)
      assert.equal(answer.json.status, 503)
      assert.match(answer.json.detail, /^The tables of the rate limiter are missing: .*"ratelimit migrate"/)
      assert.doesNotMatch(answer.text, /SELECT|no such table|relation|file:|postgresql:/)
    }
    await database.database.execute(`DROP TABLE ${dialect.table('rate_limit_token')}`)
    const unknown = await call('GET', '/rules', { as: 'admin' })
    assert.equal(unknown.status, 503)
    assert.match(unknown.json.detail, /^The tables of the rate limiter are missing/)
    assert.match(JSON.stringify(log), /A table is missing in .*ratelimit migrate/)
  })
})

test('every wrong field is named, however many there are, with the part of the request that has it', async (t) => {
  const { call } = await startWithApi(t, 'sqlite')
  const as = 'admin'
  const names = Object.keys((await call('PUT', '/rules/api', { as, json: RULE })).json)
  assert.ok(names.length > 16)
  const wrong = Object.fromEntries(names.map((name) => [name, {}]))
  const { json } = await call('PATCH', '/rules/api', { as, json: wrong })
  assert.deepEqual(
    json.errors.map(({ in: part, field }: { in: string; field: string }) => `${part} ${field}`),
    names.map((name) => `body ${name}`),
  )
  for (const [method, path, request, part] of [
    ['PUT', '/rules/a:b', { json: RULE }, 'path'],
    ['GET', '/overrides/x', {}, 'path'],
    ['GET', '/rules?limit=0', {}, 'query'],
    ['GET', '/health?deep=1', {}, 'query'],
    ['DELETE', '/rules/api', { headers: { 'if-match': 'abc' } }, 'header'],
  ] as const) {
    const { json } = await call(method, path, { as, ...request })
    assert.deepEqual(
      json.errors.map(({ in: each }: { in: string }) => each),
      [part],
      `${method} ${path}`,
    )
  }
})

test('the validation of the host and that of the API do not meet, below a prefix with a parameter neither', async (t) => {
  const { request, tokens } = await startWithApi(t, 'sqlite', {
    before: (host) => {
      host.setSchemaErrorFormatter((errors) => new Error(`host: ${errors.map(({ message }) => message).join()}`))
      host.addSchema({ $id: 'count', type: 'integer' })
    },
    routes: (host) => {
      const querystring = { type: 'object', properties: { count: { $ref: 'count#' } } }
      const response = { 200: { type: 'object', properties: { shown: { type: 'string' } } } }
      host.get('/host', { schema: { querystring, response } }, async ({ query }) => ({
        shown: JSON.stringify(query),
        hidden: true,
      }))
      host.register(apiPlugin, { prefix: '/:tenant/api' })
    },
  })
  const headers = { authorization: `Bearer ${tokens.get('viewer')}` }
  const read = (path: string) => request(`/acme/api${path}`, { headers })
  assert.deepEqual(JSON.parse((await request('/host?count=5&more=1')).text), { shown: '{"count":5,"more":"1"}' })
  const refused = await request('/host?count=x')
  assert.deepEqual([refused.status, JSON.parse(refused.text).message], [400, 'host: must be integer'])
  assert.equal((await read('/rules')).status, 200)
  assert.equal((await read('/overrides/7')).status, 404)
  const { status, text } = await read('/overrides/x')
  assert.deepEqual([status, JSON.parse(text).errors], [400, [{ in: 'path', field: 'id', detail: 'must be integer' }]])
})

test('a row that raw SQL filled with other types is deleted without If-Match, as all other answers say', async (t) => {
  const { call, database, log } = await startWithApi(t, 'sqlite')
  const as = 'admin'
  for (const column of ["priority = 'abc'", "is_active = 'yes'", "starts_at = 'garbage'"]) {
    assert.equal((await call('PUT', '/rules/raw', { as, json: RULE })).status, 201)
    await database.database.execute(`UPDATE rate_limit_rule SET ${column}`)
    const stored = await call('GET', '/rules/raw', { as })
    assert.equal(stored.status, 200)
    if (column.startsWith('priority')) assert.equal(stored.json.priority, 'abc')
    const tag = String(stored.headers.etag)
    const locked = { as, headers: { 'if-match': tag } } as const
    for (const [method, request] of [
      ['PATCH', { as, json: { rate: '6/m' } }],
      ['PATCH', { ...locked, json: { rate: '6/m' } }],
      ['PUT', { ...locked, json: RULE }],
      ['DELETE', locked],
    ] as const) {
      const { status, text } = await call(method, '/rules/raw', request)
      // It is named where the change would leave it, and can be mended.
      if (column.startsWith('starts_at') && !('headers' in request)) {
        assert.match(text, /startsAt/)
        continue
      }
      assert.equal(status, 409, `${column}: ${method} ${text}`)
      assert.match(text, /has values that cannot be read: delete it without If-Match/)
    }
    assert.equal((await call('DELETE', '/rules/raw', { as })).status, 204)
  }
  assert.deepEqual(
    log.filter(({ level }) => Number(level) >= 50),
    [],
  )
})
