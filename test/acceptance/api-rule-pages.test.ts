/** The API's list of rules: its text is kept while no rule changes, and no longer. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRateLimitClient } from '../../src/index.js'
import { startWithApi } from '../support/api-app.js'
import { forAnyDatabase } from '../support/databases.js'

const RULE = { pathPattern: '^/api/', rate: '5/m' }

forAnyDatabase((provider) => {
  test('the next request sees a change of the rules, whichever door it came through', async (t) => {
    const {
      call,
      database: { database, client, url, schema },
    } = await startWithApi(t, provider)
    const table = database.dialect.table('rate_limit_rule')
    const listed = async () => {
      const { json } = await call('GET', '/rules', { as: 'viewer' })
      assert.equal(json.nextCursor, null)
      return json.items.map((rule: { name: string; description: string }) => `${rule.name} ${rule.description}`)
    }
    const other = createRateLimitClient({ database: url, schema })
    t.after(() => other.$disconnect())
    const doors: [() => Promise<unknown>, string[]][] = [
      [async () => undefined, []],
      [() => call('PUT', '/rules/a', { as: 'admin', json: RULE }), ['a ']],
      [
        async () => client.rateLimitRule.update({ where: { name: 'a' }, data: { description: 'client' } }),
        ['a client'],
      ],
      [async () => other.rateLimitRule.create({ data: { ...RULE, name: 'b' } }), ['a client', 'b ']],
      [() => database.execute(`UPDATE ${table} SET description = 'sql' WHERE name = 'b'`), ['a client', 'b sql']],
      [() => call('POST', '/import', { as: 'admin', json: { version: 1, rules: [{ ...RULE, name: 'c' }] } }), ['c ']],
      [() => database.execute(`DELETE FROM ${table}`), []],
    ]
    for (const [change, expected] of doors) {
      await change()
      assert.deepEqual(await listed(), expected)
      assert.deepEqual(await listed(), expected)
    }
  })

  test('pages are by priority and name, whatever the group, and each begins where the last one ended', async (t) => {
    const { call, database } = await startWithApi(t, provider)
    await database.client.rateLimitRule.createMany({
      data: ['a- 0', 'b- 3', 'c-team 1', 'd-team 1', 'e-team 2', 'f-org 0', 'g- 3', 'h-org 9'].map((text) => {
        const [, name = '', group = '', priority] = /^(.)-(\w*) (\d)$/.exec(text) ?? []
        return { ...RULE, name, group, priority: Number(priority) }
      }),
    })
    const names: string[] = []
    for (let cursor = ''; ; ) {
      const { json } = await call('GET', `/rules?limit=1${cursor}`, { as: 'viewer' })
      names.push(...json.items.map(({ name }: { name: string }) => name))
      if (json.nextCursor === null) break
      cursor = `&cursor=${json.nextCursor}`
    }
    assert.equal(names.join(''), 'hbgecdaf')
  })

  test('a ninth group is a wrong field, in an import too', async (t) => {
    const { call, database } = await startWithApi(t, provider)
    await database.client.rateLimitRule.createMany({
      data: [...'abcdefg'].map((group) => ({ ...RULE, name: group, group })),
    })
    const problem =
      /^"h" would be one group more than the 8 that are allowed: give one of a, b, c, d, e, f, g, or an empty text/
    const put = await call('PUT', '/rules/h', { as: 'admin', json: { ...RULE, group: 'h' } })
    assert.equal(put.status, 400)
    assert.match(put.json.errors.find(({ field }: { field: string }) => field === 'group')?.detail ?? '', problem)
    const patch = await call('PATCH', '/rules/a', { as: 'admin', json: { group: 'h' } })
    assert.equal(patch.status, 200)
    const document = { version: 1, rules: [{ ...RULE, name: 'x', group: 'a' }] }
    const kept = await call('POST', '/import?keep=true', { as: 'admin', json: document })
    assert.equal(kept.status, 400, kept.text)
    assert.match(kept.text, /rules\[0\]\.group/)
    assert.equal((await call('POST', '/import', { as: 'admin', json: document })).status, 200)
  })

  test('a page is kept with what was asked, and for a minute where a backup has the same revision', async (t) => {
    const {
      call,
      clock,
      database: { database, client },
    } = await startWithApi(t, provider)
    for (const name of ['a', 'b']) await client.rateLimitRule.create({ data: { ...RULE, name } })
    const list = (query = '') => call('GET', `/rules${query}`, { as: 'viewer' })
    const first = await list()
    const cursor = (await list('?limit=1')).json.nextCursor
    assert.equal((await list(`?limit=1&cursor=${cursor}`)).json.items[0].name, 'b')
    assert.equal((await list('?limit=1')).json.items[0].name, 'a')
    assert.equal((await list()).text, first.text)
    assert.match(first.headers['content-type'] ?? '', /^application\/json/)

    const { table } = database.dialect
    await database.execute(`UPDATE ${table('rate_limit_rule')} SET description = 'restored' WHERE name = 'a'`)
    await database.execute(`UPDATE ${table('rate_limit_revision')} SET revision = revision - 1 WHERE id = 1`)
    assert.equal((await list()).text, first.text)
    clock.advance(60_000)
    assert.equal((await list()).json.items[0].description, 'restored')
    // Without the row of the revision every request reads the rules.
    await database.execute(`DELETE FROM ${table('rate_limit_revision')}`)
    await database.execute(`UPDATE ${table('rate_limit_rule')} SET description = 'again' WHERE name = 'a'`)
    assert.equal((await list()).json.items[0].description, 'again')
  })
})
