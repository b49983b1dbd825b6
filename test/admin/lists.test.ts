import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import { countStatements } from '../support/count-statements.js'
import { forEachDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { eventually } from '../support/eventually.js'
import { insertEvents } from '../support/insert-events.js'
import { formOf, PANEL, startWithPanel } from '../support/panel-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const HOUR_MS = 3_600_000

interface List {
  readonly records: readonly { readonly id: unknown; readonly params: Readonly<Record<string, unknown>> }[]
  readonly meta: { readonly total: number }
  readonly notice?: { readonly options: { readonly defaultValue: string } }
}

/** How SQLite goes about a statement, whatever its values are. */
async function planOf(client: RateLimitClient, sql: string): Promise<string> {
  const values = Array.from(sql.match(/\?/g) ?? [], () => 0)
  const steps = await client.$queryRawUnsafe<{ detail: string }[]>(`EXPLAIN QUERY PLAN ${sql}`, ...values)
  return steps.map(({ detail }) => detail).join()
}

forEachDatabase((provider) => {
  async function start(t: Parameters<typeof startWithPanel>[0]) {
    const started = await startWithPanel(t, provider)
    const headers = await started.asStaff()
    async function list(resource: string, query = ''): Promise<List> {
      const { status, text } = await started.request(`${PANEL}/api/resources/${resource}/actions/list?${query}`, {
        headers,
      })
      assert.equal(status, 200, text)
      return JSON.parse(text)
    }
    async function save(path: string, fields: Readonly<Record<string, string>>) {
      const { body, contentType } = await formOf(fields)
      const { text } = await started.request(`${PANEL}/api/resources/${path}`, {
        method: 'POST',
        headers: { ...headers, 'content-type': contentType },
        body,
      })
      return JSON.parse(text)
    }
    return { ...started, headers, list, save }
  }

  test('rules are searched in name, pattern and description, whatever the case, and listed by priority', async (t) => {
    const { list, database } = await start(t)
    const rules = [
      { name: 'Checkout', pathPattern: '^/pay', rate: '1/m', priority: 1 },
      { name: 'search', pathPattern: '^/Find', rate: '1/m', priority: 5, algorithm: 'token_bucket' },
      {
        name: 'b',
        pathPattern: '^/b',
        rate: '1/m',
        priority: 5,
        description: 'For the CHECKOUT of guests',
        isActive: false,
      },
    ]
    for (const data of rules) await database.client.rateLimitRule.create({ data })
    const names = async (query: string) => (await list('rules', query)).records.map(({ params }) => params.name)

    assert.deepEqual(await names(''), ['b', 'search', 'Checkout'])
    assert.deepEqual(await names('filters.search=checkOUT'), ['b', 'Checkout'])
    assert.deepEqual(await names('filters.search=find'), ['search'])
    assert.deepEqual(await names('filters.isActive=false'), ['b'])
    assert.deepEqual(await names('filters.algorithm=token_bucket'), ['search'])
    assert.deepEqual(await names('filters.key=user'), [])
    assert.deepEqual(await names('filters.search=%00'), ['b', 'search', 'Checkout'])
    assert.deepEqual(await names('sortBy=changedBy&direction=asc'), ['b', 'search', 'Checkout'])
  })

  test('a search takes every character as it is, whatever its case, and finds all that there is', async (t) => {
    const { list, database } = await start(t)
    const rule = { rate: '1/m', pathPattern: '^/x' }
    const rules = [
      { ...rule, name: 'a_B' },
      { ...rule, name: 'aXb' },
      { ...rule, name: 'digits', pathPattern: '^/v/\\d' },
      { ...rule, name: 'e', description: 'Für 100% der ÄRZTE' },
    ]
    for (const data of rules) await database.client.rateLimitRule.create({ data })
    await database.client.rateLimitOverride.createMany({
      data: Array.from({ length: 1_002 }, (_, user) => ({ client: `user:${user}`, effect: 'deny', note: `a_${user}` })),
    })
    const search = async (text: string, resource = 'rules') => {
      const { records, meta } = await list(resource, `perPage=500&page=3&filters.search=${encodeURIComponent(text)}`)
      const all = await list(resource, `filters.search=${encodeURIComponent(text)}`)
      return { total: meta.total, onLastPage: records.length, names: all.records.map(({ params }) => params.name) }
    }
    const found = async (text: string) => (await search(text)).names

    assert.deepEqual(await found('A_b'), ['a_B'])
    assert.deepEqual(await found('_'), ['a_B'])
    assert.deepEqual(await found('%'), ['e'])
    assert.deepEqual(await found('/V/\\D'), ['digits'])
    assert.deepEqual(await found('\\'), ['digits'])
    assert.deepEqual(await found('für 100% der ärzte'), ['e'])
    assert.deepEqual(await found('a\\_b'), [])
    const { total, onLastPage } = await search('A_', 'overrides')
    assert.deepEqual([total, onLastPage], [1_002, 2])
  })

  test('what a text begins with is meant as it is, its case included', async (t) => {
    const { list, database } = await start(t)
    const paths = ['/api/a_b', '/api/aXb', '/API/a', '/100%', '/100X', '/v\\d', '/é/\u{10FFFF}', '/é/\uD7FF', '/']
    for (const path of paths) await logEvents(database.client, { key: 'a', path, allowed: 1, atMs: NOW_MS - HOUR_MS })
    for (const key of ['k_1', 'kX1', 'K_1']) {
      const window = { windowStart: new Date(NOW_MS), windowEnd: new Date(NOW_MS + HOUR_MS) }
      await database.client.rateLimitCounter.create({ data: { key, count: 1, ...window } })
    }
    const found = async (resource: string, field: string, text: string) => {
      const { records } = await list(resource, `filters.${field}=${encodeURIComponent(text)}`)
      return records.map(({ params }) => params[field]).sort()
    }

    for (const path of ['/api/a_b', '/API/a', '/v\\d', '/100%', '/é/\u{10FFFF}', '/é/\uD7FF']) {
      assert.deepEqual(await found('events', 'path', path), [path])
    }
    assert.deepEqual(await found('events', 'path', '/api/a'), ['/api/aXb', '/api/a_b'])
    assert.deepEqual(await found('events', 'path', '/api/a_'), ['/api/a_b'])
    assert.deepEqual(await found('events', 'path', '/é'), ['/é/\uD7FF', '/é/\u{10FFFF}'])
    assert.equal((await found('events', 'path', '/')).length, paths.length)
    assert.deepEqual(await found('counters', 'key', 'k_'), ['k_1'])
    assert.deepEqual(await found('counters', 'key', '\u{10FFFF}'), [])
  })

  test('events are found by their client as people spell it, under whatever rule', async (t) => {
    const { list, database } = await start(t)
    const atMs = NOW_MS - HOUR_MS
    for (const [key, client, ruleName] of [
      ['rule:items:user:1007', 'user:1007', 'items'],
      ['user:1007', 'user:1007', ''],
      ['rule:keys:1007', 'header:x-api-key:1007', 'keys'],
      ['ip:203.0.113.7', 'ip:203.0.113.7', ''],
      ['rule:login:203.0.113.9', 'ip:203.0.113.9', 'login'],
      // Other writers name no client.
      ['rule:login:203.0.113.7', '', 'login'],
      ['ip:198.51.100.7', 'ip:198.51.100.7', ''],
    ] as const) {
      await logEvents(database.client, { key, client, ruleName, allowed: 1, blocked: 1, atMs })
    }
    const keys = async (client: string, further = '') => {
      const { records } = await list('events', `filters.key=${encodeURIComponent(client)}${further}`)
      return records.map(({ params }) => params.key).sort()
    }
    const twice = (...each: string[]) => each.flatMap((key) => [key, key])
    const ofUser = ['rule:items:user:1007', 'user:1007']
    for (const spelled of ['user:1007', ' 1007 ']) assert.deepEqual(await keys(spelled), twice(...ofUser), spelled)
    assert.deepEqual(await keys('user:1007', '&filters.allowed=over_limit'), ofUser)
    assert.deepEqual(await keys('header:x-api-key:1007'), twice('rule:keys:1007'))
    for (const spelled of ['203.0.113.7', 'ip:203.0.113.7', '203.0.113.7:443']) {
      assert.deepEqual(await keys(spelled), twice('ip:203.0.113.7', 'rule:login:203.0.113.7'), spelled)
    }
    assert.deepEqual(await keys('rule:login:203.0.113.9'), twice('rule:login:203.0.113.9'))
    assert.deepEqual(
      await keys('203.0.113.0/24'),
      twice('ip:203.0.113.7', 'rule:login:203.0.113.7', 'rule:login:203.0.113.9'),
    )
    for (const nobody of ['user:100', '203.0.113.70', 'rule:login:203.0.113.8', '%', "'"]) {
      assert.deepEqual(await keys(nobody), [], nobody)
    }
  })

  test('a list by what its keys begin with is read in its order, and never sorted', {
    skip: provider !== 'sqlite' && 'PostgreSQL chooses by what is in the table',
  }, async (t) => {
    const { list, database } = await start(t)
    const counted = countStatements()
    t.after(() => counted.stop())
    await list('counters', 'filters.key=ip:')
    counted.stop()
    const [listed = ''] = counted.of('rate_limit_counter').filter((sql) => /ORDER BY \S*window_end/.test(sql))
    const plan = await planOf(database.client, listed)
    assert.match(plan, /INDEX rate_limit_counter_window_end_idx/)
    assert.doesNotMatch(plan, /TEMP B-TREE/)
  })

  test('events are those of the last day, unless a time is asked for, the newest first, whatever order is asked for', async (t) => {
    const { list, database } = await start(t)
    for (const hours of [1, 30, 2]) {
      await logEvents(database.client, { key: `ip:198.51.100.${hours}`, allowed: 1, atMs: NOW_MS - hours * HOUR_MS })
    }
    const keys = async (query: string) => (await list('events', query)).records.map(({ params }) => params.key)

    assert.deepEqual(await keys(''), ['ip:198.51.100.1', 'ip:198.51.100.2'])
    assert.deepEqual(await keys('sortBy=key&direction=desc'), ['ip:198.51.100.1', 'ip:198.51.100.2'])
    assert.deepEqual(await keys('filters.timestamp~~from=2026-01-01'), [
      'ip:198.51.100.1',
      'ip:198.51.100.2',
      'ip:198.51.100.30',
    ])
    assert.deepEqual(await keys('filters.key=ip:198.51.100.2'), ['ip:198.51.100.2'])
    assert.deepEqual(await keys('filters.allowed=false'), [])
    assert.deepEqual(await keys('filters.path=/nowhere'), [])
    const refused = { key: 'a', allowed: 0, atMs: NOW_MS - HOUR_MS }
    await logEvents(database.client, { ...refused, denied: 1 })
    await logEvents(database.client, { ...refused, key: 'b', blocked: 1 })
    assert.deepEqual(await keys('filters.allowed=denied'), ['a'])
    assert.deepEqual(await keys('filters.allowed=denied&filters.key=b'), [])
    assert.deepEqual(await keys('filters.allowed=over_limit'), ['b'])
    assert.deepEqual((await keys('filters.allowed=false')).toSorted(), ['a', 'b'])
  })

  test('no size of a page makes a list longer than 500 rows, or begin at its end', async (t) => {
    const { list, database } = await start(t)
    for (const minutes of [1, 2]) {
      await logEvents(database.client, {
        key: `ip:198.51.100.${minutes}`,
        allowed: 400,
        atMs: NOW_MS - minutes * 60_000,
      })
    }
    assert.equal((await list('events', 'perPage=100000')).records.length, 500)
    for (const perPage of ['-1000000', '-1']) {
      assert.equal((await list('events', `perPage=${perPage}`)).records.length, 0)
    }
  })

  test('ids past 2^31 and counts are numbers, and many events are counted no further than to "more than 10,000"', async (t) => {
    const { list, database, request, headers } = await start(t)
    const { dialect } = database.database
    for (let part = 0; part < 11; part++) {
      await logEvents(database.client, { key: 'ip:198.51.100.7', allowed: 1_000, atMs: NOW_MS - HOUR_MS })
    }
    const big = 3_000_000_000
    await database.database.execute(
      `UPDATE ${dialect.table('rate_limit_event')} SET id = $1
      WHERE id = (SELECT MAX(id) FROM ${dialect.table('rate_limit_event')})`,
      [big],
    )

    const { records, meta } = await list('events')
    assert.equal(meta.total, 10_001)
    assert.equal(records[0]?.id, big)
    const { text } = await request(`${PANEL}/api/resources/events/records/${big}/show`, { headers })
    assert.equal(JSON.parse(text).record.params.count, 1_000)
  })

  test('a filter that no index helps looks at the newest 50,000 events, and says so', async (t) => {
    const { list, database } = await start(t)
    const event = { key: 'ip:198.51.100.7', path: '/', method: 'GET', outcome: 'allowed' } as const
    await insertEvents(database.database, [{ ...event, rule: 'old', atMs: NOW_MS - 2 * HOUR_MS }])
    const rule = 'new'
    const many = Array.from({ length: 5_001 }, () => ({ ...event, rule, atMs: NOW_MS - HOUR_MS }))
    for (let part = 0; part < 10; part++) await insertEvents(database.database, many)

    const { records, notice } = await list('events', 'filters.ruleName=old')
    assert.equal(records.length, 0)
    assert.match(notice?.options.defaultValue ?? '', /newest 50,000 requests were searched, back to 2026-01-15 11:00/)
    const before = `filters.timestamp~~to=${new Date(NOW_MS - 90 * 60_000).toISOString()}`
    assert.equal((await list('events', `filters.ruleName=old&${before}`)).records.length, 1)
    assert.equal((await list('events', '')).notice, undefined)
  })

  test('what a list of events reads begins at its newest, however many there are, and is found by the client where one is named', async (t) => {
    const { list, database } = await start(t)
    const counted = countStatements()
    t.after(() => counted.stop())
    const window = 'filters.timestamp~~from=2026-01-01'
    for (const query of [
      '',
      window,
      'filters.allowed=false',
      'filters.allowed=denied',
      'filters.allowed=over_limit',
      'filters.key=a&filters.allowed=denied',
      'filters.key=a&filters.allowed=true',
      'filters.path=/x',
    ]) {
      await list('events', query)
    }
    counted.stop()
    const selected = counted
      .of('rate_limit_event')
      // On a busy machine the rollups read the log meanwhile.
      .filter((sql) => /^SELECT .*\bLIMIT\b/s.test(sql) && !sql.includes('rate_limit_watermark'))
    assert.ok(selected.length > 10, `${selected.length} statements`)
    for (const sql of selected) {
      assert.match(sql, /ORDER BY \S*timestamp\S* DESC/)
      assert.equal(sql.match(/timestamp\S* >/g)?.length, 1, sql)
    }
    if (provider !== 'sqlite') return
    const plans = await Promise.all(selected.map((sql) => planOf(database.client, sql)))
    const indexes = plans.map((plan) => /INDEX rate_limit_event_(\w+)_idx/.exec(plan)?.[1])
    assert.deepEqual(new Set(indexes), new Set(['timestamp', 'allowed_timestamp_outcome', 'key_timestamp']))
    const ofClient = indexes.filter((_, place) => /"?`?key`?"? = /.test(selected[place] ?? ''))
    assert.deepEqual(new Set(ofClient), new Set(['key_timestamp']))
  })

  test('of the blocked requests of one client the newest 20,000 of its events are looked at', async (t) => {
    const { list, database } = await start(t)
    const event = { key: 'ip:198.51.100.7', path: '/', method: 'GET', rule: '' } as const
    await insertEvents(database.database, [{ ...event, outcome: 'blocked', atMs: NOW_MS - 2 * HOUR_MS }])
    const many = Array.from({ length: 5_001 }, () => ({
      ...event,
      outcome: 'allowed' as const,
      atMs: NOW_MS - HOUR_MS,
    }))
    for (let part = 0; part < 4; part++) await insertEvents(database.database, many)

    assert.equal((await list('events', 'filters.allowed=false')).records.length, 1)
    const { records, notice } = await list('events', `filters.allowed=false&filters.key=${event.key}`)
    assert.equal(records.length, 0)
    assert.match(notice?.options.defaultValue ?? '', /newest 20,000 requests were searched/)
  })

  test('a counter of any key is shown, and reset', async (t) => {
    const { list, database, request, headers } = await start(t)
    const keys = ['rule:a:2001:db8::/64', 'header:?x=1#%2F,"\'&é鍵', `k/${'/x'.repeat(126)}`]
    for (const key of keys) {
      await database.client.rateLimitCounter.create({
        data: { key, count: 5, windowStart: new Date(NOW_MS), windowEnd: new Date(NOW_MS + HOUR_MS) },
      })
    }
    assert.equal((await list('counters', `filters.key=${encodeURIComponent('header:?')}`)).records.length, 1)
    for (const { id, params } of (await list('counters')).records) {
      const address = `${PANEL}/api/resources/counters/records/${String(id)}`
      const shown = JSON.parse((await request(`${address}/show`, { headers })).text)
      assert.equal(shown.record.params.key, params.key)
      await request(`${address}/reset`, { method: 'POST', headers })
    }
    assert.equal(await database.client.rateLimitCounter.count({ where: { key: { in: keys } } }), 0)
  })

  test('a reset counter starts afresh within two seconds, in a namespace too', async (t) => {
    const { request, statuses, asStaff, clock } = await startWithPanel(t, provider, {
      plugin: { namespace: 'shop', middleware: { defaultRate: '1/h' } },
    })
    const headers = await asStaff()
    assert.deepEqual(await statuses(2, '/api/orders'), [200, 429])
    const counters = `${PANEL}/api/resources/counters`
    const { records }: List = JSON.parse((await request(`${counters}/actions/list`, { headers })).text)
    const counter = records.find(({ params }) => String(params.key).endsWith('ip:127.0.0.1'))
    const { text } = await request(`${counters}/records/${String(counter?.id)}/reset`, { method: 'POST', headers })
    assert.match(text, /The counter was reset/)
    clock.advance(2_000)
    await eventually('the client starts afresh', async () => (await statuses(1, '/api/orders'))[0] === 200)
  })

  test('every wrong field of a form is reported, and nothing is written', async (t) => {
    const { save, database } = await start(t)
    const { record, notice } = await save('rules/actions/new', {
      name: 'a:b',
      pathPattern: '[unclosed',
      rate: 'often',
      method: 'FETCH',
      condition: "user.plan = 'free'",
      key: 'cookie',
      priority: '1.5',
    })
    const wrong = ['condition', 'key', 'method', 'name', 'pathPattern', 'priority', 'rate']
    assert.deepEqual(Object.keys(record.errors).sort(), wrong)
    assert.match(record.errors.condition.message, /^At column 11 \(= 'free'\)/)
    assert.equal(notice.type, 'error')
    assert.equal(await database.client.rateLimitRule.count(), 0)

    const rule = { name: 'twice', pathPattern: '.', rate: '1/m' }
    assert.deepEqual((await save('rules/actions/new', rule)).record.errors, {})
    assert.match((await save('rules/actions/new', rule)).record.errors.name.message, /a rule of this name already/)
    const [stored] = await database.client.rateLimitRule.findMany()
    const edited = await save(`rules/records/${stored?.id}/edit`, { rate: 'x' })
    assert.match(edited.record.errors.rate.message, /^Invalid rate/)
    assert.equal((await database.client.rateLimitRule.findMany())[0]?.rate, '1/m')
  })

  test('a form that was opened before another save is refused, and a field of the list is not', async (t) => {
    const { save, request, headers, database } = await start(t)
    const rules = database.client.rateLimitRule
    await rules.create({ data: { name: 'shared', pathPattern: '.', rate: '1/m' } })
    const shown = JSON.parse((await request(`${PANEL}/api/resources/rules/records/1/edit`, { headers })).text)
    const { updatedAt } = shown.record.params
    await rules.update({
      where: { name: 'shared' },
      data: { rate: '2/m', updatedAt: new Date(Date.parse(updatedAt) + 1) },
    })

    const refused = await save('rules/records/1/edit', { rate: '3/m', description: 'mine', updatedAt })
    assert.match(refused.notice.options.defaultValue, /the row was changed after you opened it/)
    assert.equal(refused.record.params.rate, '2/m')
    await save('rules/records/1/edit', { priority: '7' })
    const [{ rate, priority, description } = {}] = await rules.findMany()
    assert.deepEqual([rate, priority, description], ['2/m', 7, ''])
  })

  test('a rule that was renamed keeps its history', async (t) => {
    const { list, request, headers, database } = await start(t)
    const rules = database.client.rateLimitRule
    await rules.create({ data: { name: 'before', pathPattern: '.', rate: '1/m' } })
    await rules.create({ data: { name: 'other', pathPattern: '.', rate: '1/m' } })
    await rules.update({ where: { name: 'before' }, data: { rate: '2/m' } })
    await rules.update({ where: { name: 'before' }, data: { name: 'after' } })
    const { text } = await request(`${PANEL}/api/resources/rules/records/1/history`, { method: 'POST', headers })
    const [, query = ''] = JSON.parse(text).redirectUrl.split('?')
    const { records, meta } = await list('changes', query)
    assert.deepEqual(
      records.map(({ params }) => [params.name, params.action]),
      [
        ['after', 'update'],
        ['before', 'update'],
        ['before', 'create'],
      ],
    )
    assert.equal(meta.total, 3)
  })

  test('while many rows are switched or deleted, requests are answered', async (t) => {
    const { request, headers, database } = await start(t)
    const { rateLimitRule: rules, rateLimitOverride: overrides } = database.client
    const many = Array.from({ length: 200 }, (_, place) => place)
    await rules.createMany({ data: many.map((place) => ({ name: `r${place}`, pathPattern: '^/x', rate: '1/m' })) })
    await overrides.createMany({ data: many.map((place) => ({ client: `user:${place}`, effect: 'deny' })) })
    async function writesBeforeAnswer(action: string, table: { findMany(query: object): Promise<{ id: number }[]> }) {
      const ids = (await table.findMany({ select: { id: true } })).map(({ id }) => id)
      let writes = 0
      let answered: Promise<number> | undefined
      const written = () => {
        writes++
        answered ??= request('/api/orders').then(() => writes)
      }
      database.database.ruleListeners.add(written)
      const [resource, name] = action.split('/')
      const sent = await request(`${PANEL}/api/resources/${resource}/bulk/${name}?recordIds=${ids}`, {
        method: 'POST',
        headers,
      })
      database.database.ruleListeners.delete(written)
      assert.match(JSON.parse(sent.text).notice.options.defaultValue, / 200 /)
      assert.equal(writes, 200)
      return answered
    }

    for (const [action, table] of [
      ['rules/disable', rules],
      ['rules/bulkDelete', rules],
      ['overrides/bulkDelete', overrides],
    ] as const) {
      const writes = (await writesBeforeAnswer(action, table)) ?? 0
      assert.ok(writes > 0 && writes < 200, `${action}: answered after ${writes}`)
    }
    assert.equal((await rules.count()) + (await overrides.count()), 0)
  })

  test('a rule that is deleted meanwhile keeps none of the others from being switched', async (t) => {
    const { request, headers, database } = await start(t)
    const rules = database.client.rateLimitRule
    // Ten are switched at a time, in any order.
    const ids = Array.from({ length: 11 }, (_, index) => index + 1)
    for (const id of ids) await rules.create({ data: { name: `rule-${id}`, pathPattern: '.', rate: '1/m' } })
    const { dialect } = database.database
    const table = dialect.table('rate_limit_rule')
    // What deletes it is the switching of the first ten.
    const deleted = `DELETE FROM ${table} WHERE name = 'rule-11'`
    if (provider === 'sqlite') {
      await database.database.execute(`CREATE TRIGGER meanwhile AFTER UPDATE ON ${table} BEGIN ${deleted}; END`, [])
    } else {
      const schema = table.slice(0, table.indexOf('.'))
      await database.database.execute(
        `CREATE FUNCTION ${schema}.meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${deleted}; RETURN NULL; END $$`,
        [],
      )
      await database.database.execute(
        `CREATE TRIGGER meanwhile AFTER UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION ${schema}.meanwhile()`,
        [],
      )
    }
    const { text } = await request(`${PANEL}/api/resources/rules/bulk/disable?recordIds=${ids}`, {
      method: 'POST',
      headers,
    })
    assert.match(
      JSON.parse(text).notice.options.defaultValue,
      /^Disabled 10 rule\(s\)\. rule-11: The row was deleted in the meantime/,
    )
    assert.equal(await rules.count({ where: { isActive: true } }), 0)
  })

  test('a preview says what the rule of the form would have refused, and whom', async (t) => {
    const { save, database } = await start(t)
    await database.client.rateLimitEvent.createMany({
      data: Array.from({ length: 5 }, (_, place) => ({
        timestamp: new Date(NOW_MS - HOUR_MS + place),
        key: 'ip:203.0.113.7',
        clientIp: '203.0.113.7',
        path: '/api/orders',
        method: 'GET',
        allowed: true,
        count: place + 1,
        limit: 100,
      })),
    })
    const form = { name: 'api', pathPattern: '^/api/', rate: '2/m', block: 'true', isActive: 'true', priority: '0' }
    const { sentences, chart } = await save('rules/actions/preview', form)
    assert.deepEqual(sentences.slice(0, 2), [
      '5 of 5 requests matched, 60.0% of these would have been refused, from 1 client.',
      'Mostly rule:api:203.0.113.7 (3).',
    ])
    assert.equal(chart.description, sentences[0])
    const [bar, ...others] = chart.bars.filter(({ segments }: { segments: unknown[] }) => segments.length > 0)
    assert.deepEqual([bar.requests, bar.blocked, others.length], ['5', '3', 0])
    const counted = await save('rules/actions/preview', { ...form, block: 'false' })
    assert.match(
      counted.sentences[0],
      /^5 of 5 requests matched, 60\.0% of these would have been over the limit, and let through, from 1 client\.$/,
    )
    const { errors } = await save('rules/actions/preview', { ...form, rate: 'x' })
    assert.deepEqual(Object.keys(errors), ['rate'])
    assert.equal(await database.client.rateLimitRule.count(), 0)
  })

  test('rates are suggested for the pattern in the form, with what each would have refused', async (t) => {
    const { save, database } = await start(t)
    const sent = (key: string, times: number) =>
      Array.from({ length: times }, (_, place) => ({
        timestamp: new Date(NOW_MS - HOUR_MS + place),
        key,
        path: '/login',
        method: 'POST',
        allowed: true,
        count: 1,
        limit: 100,
      }))
    await database.client.rateLimitEvent.createMany({ data: [...sent('ip:203.0.113.7', 9), ...sent('user:7', 2)] })
    const suggest = (form: object) => save('rules/actions/suggest', { pathPattern: '^/login', method: 'POST', ...form })
    const { sentences, rates } = await suggest({})
    assert.deepEqual(sentences, ['In the last 7 days 2 clients sent 11 requests to POST /login.'])
    assert.deepEqual(rates.slice(0, 2), [
      { rate: '2/m', percentile: 50, clients: '1', requests: '7' },
      { rate: '9/m', percentile: 99, clients: '0', requests: '0' },
    ])
    assert.equal(rates.length, 4, 'of several percentiles with one rate the last one')
    const none = await suggest({ pathPattern: '^/no where' })
    assert.match(none.sentences[0], /^The log has no requests of POST \/no%20where in the last 7 days\.$/)
    for (const pathPattern of ['^/login$', 'login', '^/(a|b)', '(?i)^/login', '^/\u202e', '(']) {
      const { sentences, rates } = await suggest({ pathPattern })
      assert.match(sentences[0], /^Rates are suggested for patterns that are the beginning of a path/, pathPattern)
      assert.deepEqual(rates, [])
    }
    assert.match(
      (await suggest({ pathPattern: '.', method: 'GET,POST' })).sentences[0],
      /2 clients sent 11 requests to any path/,
    )
  })

  test('line feeds are written as they were, so that only what was edited is in the history', async (t) => {
    const { save, list, request, headers, database } = await start(t)
    const lines = 'one\ntwo\n\nthree'
    await save('rules/actions/new', { name: 'own', pathPattern: '.', rate: '1/m', description: lines })
    await save('overrides/actions/new', { client: 'user:1', effect: 'deny', note: lines })
    for (const [path, edited] of [
      ['rules/records/1', { rate: '2/m' }],
      ['overrides/records/1', { effect: 'allow' }],
    ] as const) {
      const shown = JSON.parse((await request(`${PANEL}/api/resources/${path}/edit`, { headers })).text)
      const fields: [string, unknown][] = Object.entries(shown.record.params)
      const form = fields.map(([name, value]) => [name, String(value ?? '')])
      await save(`${path}/edit`, { ...Object.fromEntries(form), ...edited })
    }

    assert.equal((await database.client.rateLimitRule.findMany())[0]?.description, lines)
    assert.equal((await database.client.rateLimitOverride.findMany())[0]?.note, lines)
    const { records } = await list('changes', 'filters.action=update')
    assert.deepEqual(
      records.map(({ params }) => params.difference),
      ['effect: deny → allow', 'rate: 1/m → 2/m'],
    )
  })

  test('a form writes the fields that it shows, and no others', async (t) => {
    const { save, database } = await start(t)
    await save('rules/actions/new', {
      name: 'own',
      pathPattern: '.',
      rate: '1/m',
      id: '77',
      createdAt: '1999-01-01T00:00:00Z',
      changedBy: 'mallory',
      ['__proto__']: 'x',
      constructor: 'x',
      'rate.set': '9/m',
    })
    const [rule] = await database.client.rateLimitRule.findMany()
    const [change] = await database.client.rateLimitChange.findMany()
    assert.equal(rule?.id, 1)
    assert.notEqual(rule?.createdAt.getUTCFullYear(), 1999)
    assert.equal(change?.actor, 'alice')
    assert.equal(rule?.rate, '1/m')
  })

  test('a field is a text or a switch, whatever is sent as JSON', async (t) => {
    const { request, headers, database } = await start(t)
    await database.client.rateLimitRule.create({ data: { name: 'own', pathPattern: '.', rate: '1/m' } })
    const sent = {
      priority: { increment: 5 },
      rate: { value: '9/m' },
      description: null,
      method: ['GET'],
      toString: 'x',
    }
    for (const body of [JSON.stringify(sent), '{"__proto__":{"rate":"9/m"}}', '[1]', 'null', '"x"']) {
      const answer = await request(`${PANEL}/api/resources/rules/records/1/edit`, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body,
      })
      assert.equal(answer.status, 200, answer.text)
    }
    const [rule] = await database.client.rateLimitRule.findMany()
    assert.deepEqual([rule?.rate, rule?.priority, rule?.method], ['1/m', 0, 'ALL'])
  })

  test('what names nothing is not found, and nothing is a 500', async (t) => {
    const { request, headers, log } = await start(t)
    for (const path of [
      '/api/resources/nothing/actions/list',
      '/api/resources/rules/actions/nothing',
      '/api/resources/rules/actions/delete',
      '/api/resources/rules/records/1/disable',
      '/api/resources/rules/bulk/disable',
      '/api/resources/rules/bulk/disable?recordIds=99',
      '/api/resources/rules/records/1/nothing',
      '/api/resources/rules/records//show',
      '/resources/nothing',
      '/resources/rules/bulk/disable?recordIds=1',
      '/resources/rules/records/1/delete',
      '/nothing',
      '/api/resources/rules/actions/constructor',
      '/api/resources/rules/records/1/toString',
      '/api/resources/rules/bulk/valueOf?recordIds=1',
    ]) {
      assert.equal((await request(`${PANEL}${path}`, { headers })).status, 404, path)
    }
    for (const path of ['rules/bulk/disable', 'rules/bulk/disable?recordIds=99', 'rules/records/1/disable']) {
      const sent = await request(`${PANEL}/api/resources/${path}`, { method: 'POST', headers })
      assert.equal(sent.status, 404, path)
    }
    for (const path of [
      'rules/actions/list?perPage=many',
      'rules/actions/list?perPage=5&perPage=10',
      'rules/actions/list?page=Infinity&perPage=1.5',
      'rules/actions/list?filters.constructor=x&filters.toString~~from=x&filters.__proto__=x',
      'rules/bulk/bulkDelete?recordIds=1&recordIds=99,2',
      `counters/records/${Buffer.from('a\0b').toString('base64url')}/show`,
    ]) {
      assert.ok((await request(`${PANEL}/api/resources/${path}`, { headers })).status < 500, path)
    }
    assert.deepEqual(
      log.map(({ msg }) => msg),
      [],
    )
  })
})
