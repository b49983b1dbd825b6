import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listChanges } from '../../src/rules/history/history.js'
import { forAnyDatabase } from '../support/databases.js'
import { logEvents } from '../support/events.js'
import { long } from '../support/long.js'
import { formOf, PANEL, startWithPanel } from '../support/panel-app.js'

const NOW_MS = Date.UTC(2026, 0, 15, 12)
const HOUR_MS = 3_600_000

interface List {
  readonly records: readonly { readonly id: unknown; readonly params: Readonly<Record<string, unknown>> }[]
  readonly meta: { readonly total: number }
  readonly notice?: { readonly options: { readonly defaultValue: string } }
}

forAnyDatabase((provider) => {
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

  test('lists are filtered and sorted by what they offer, and no hostile parameter breaks one', long(), async (t) => {
    const { list, database } = await start(t)
    const rule = { pathPattern: '^/x', rate: '1/m' }
    await database.client.rateLimitRule.create({ data: { ...rule, name: 'low', priority: 1 } })
    await database.client.rateLimitRule.create({ data: { ...rule, name: 'high', priority: 5, isActive: false } })
    for (const key of ['ip:203.0.113.7', 'ip:203.0.113.70']) {
      await logEvents(database.client, { key, allowed: 1, blocked: 1, path: '/a', atMs: NOW_MS - HOUR_MS })
    }
    const named = async (resource: string, query: string) =>
      (await list(resource, query)).records.map(({ params }) => params.name ?? params.key)

    assert.deepEqual(await named('rules', ''), ['high', 'low'])
    await database.client.rateLimitRule.createMany({
      data: ['c', 'a', 'b'].map((name) => ({ ...rule, name, priority: 3, group: name === 'a' ? 'team' : '' })),
    })
    assert.deepEqual(await named('rules', ''), ['high', 'a', 'b', 'c', 'low'])
    await database.client.rateLimitRule.deleteMany({ where: { priority: 3 } })
    assert.deepEqual(await named('rules', 'sortBy=name&direction=desc'), ['low', 'high'])
    assert.deepEqual(await named('rules', 'filters.name=lo'), ['low'])
    assert.deepEqual(await named('rules', 'filters.isActive=false'), ['high'])
    assert.equal((await named('events', 'filters.key=ip:203.0.113.7')).length, 2)
    assert.equal((await named('events', 'filters.allowed=true')).length, 2)
    assert.equal((await named('events', 'filters.timestamp~~to=2026-01-01')).length, 0)
    for (const resource of ['rules', 'overrides', 'events', 'counters', 'leaky-buckets', 'concurrency']) {
      for (const field of ['name', 'key', 'id', 'isActive', 'allowed', 'timestamp', 'nothing', 'constructor']) {
        for (const value of ['%00', '%ud800', '{', 'null', '%5C', "'", '%F0%9F%98%80', '1e999']) {
          await list(resource, `filters.${field}=${value}&filters.${field}~~from=${value}&filters.${field}.x=${value}`)
        }
      }
      for (const query of [
        'sortBy=changedBy&direction=asc',
        'sortBy=name&direction=sideways',
        'page=-1',
        'page=1e99',
        'page=x&perPage=x',
        'filters=x',
        '__proto__=x&toString=y&filters.__proto__.a=b',
        'filters.name=a&filters.name=b',
      ]) {
        await list(resource, query)
      }
    }
  })

  test(
    'the newest 10,000 events are listed and searched, and texts of clients turn nothing around',
    long(),
    async (t) => {
      const { list, database, request, headers } = await start(t)
      await logEvents(database.client, { key: 'old', allowed: 1, atMs: NOW_MS - HOUR_MS })
      for (let part = 0; part < 10; part++) {
        await logEvents(database.client, { key: 'k\u202e', allowed: 1_000, atMs: NOW_MS - HOUR_MS })
      }
      const { records, meta } = await list('events')
      assert.equal(meta.total, 10_000)
      assert.equal(records[0]?.params.key, 'k\\u{202e}')
      assert.equal((await list('events', 'filters.key=old')).records.length, 0)
      const { text } = await request(`${PANEL}/api/resources/events/records/${records[0]?.id}/show`, { headers })
      assert.equal(JSON.parse(text).record.params.key, 'k\\u{202e}')
    },
  )

  test('counters are found by their whole key, and have no page of their own', async (t) => {
    const { list, database, request, headers } = await start(t)
    const window = { windowStart: new Date(NOW_MS), windowEnd: new Date(NOW_MS + HOUR_MS) }
    for (const key of ['ip:203.0.113.7', 'a/b?c#d']) {
      await database.client.rateLimitCounter.create({ data: { key, count: 1, ...window } })
    }
    const { records } = await list('counters', `filters.key=${encodeURIComponent('a/b?c#d')}`)
    assert.deepEqual(
      records.map(({ params }) => [params.key, params.count]),
      [['a/b?c#d', 1]],
    )
    const shown = await request(`${PANEL}/api/resources/counters/records/ip:203.0.113.7/show`, { headers })
    assert.equal(shown.status, 403)
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
      assert.equal((await list('events', `perPage=${perPage}`)).records.length, 10)
    }
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

  test('while many rows are switched or deleted, requests are answered', long(), async (t) => {
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
      // They are reverted together.
      const changes = await listChanges(database.database, undefined, { limit: 200 })
      assert.equal(new Set(changes.map(({ actionId }) => actionId)).size, 1, action)
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
      /^Disabled 10 rules\. rule-11: The row was deleted in the meantime/,
    )
    assert.equal(await rules.count({ where: { isActive: true } }), 0)
  })

  test('line feeds are written as they were, so that only what was edited is in the history', async (t) => {
    const { save, request, headers, database } = await start(t)
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
    const changes = await database.client.rateLimitChange.findMany({ where: { action: 'update' } })
    for (const { before, after } of changes) {
      const [old, now] = [JSON.parse(before ?? ''), JSON.parse(after ?? '')]
      const changed = Object.keys(now).filter((name) => now[name] !== old[name])
      assert.equal(changed.length, 1, changed.join())
    }
    assert.equal(changes.length, 2)
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
