import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { asActor, fromSource } from '../../../src/rules/history/actor.js'
import { CurrentSnapshot } from '../../../src/rules/snapshot/current-snapshot.js'
import { atEnd } from '../../support/at-end.js'
import { forEachDatabase } from '../../support/databases.js'

const ROUTER = { caseSensitive: true, ignoreTrailingSlash: false }

forEachDatabase((_provider, open) => {
  test('a write is in force when it is resolved, and when its transaction is', async (t) => {
    const { client, names } = await start(t)
    const { rateLimitRule } = client
    await rateLimitRule.create({ data: { name: 'first', pathPattern: '^/', rate: '1/m' } })
    assert.deepEqual(names(), ['first'])
    await client.$transaction(async (transaction) => {
      await transaction.rateLimitRule.create({ data: { name: 'second', pathPattern: '^/', rate: '1/m' } })
      assert.deepEqual(names(), ['first'])
    })
    assert.deepEqual(names(), ['first', 'second'])
    await client.$transaction([
      rateLimitRule.delete({ where: { name: 'first' } }),
      rateLimitRule.create({ data: { name: 'third', pathPattern: '^/', rate: '1/m' } }),
    ])
    assert.deepEqual(names(), ['second', 'third'])
  })

  test('a transaction of an extended client is in force when it is resolved', async (t) => {
    const { client, names } = await start(t)
    const extended = client.$extends({ name: 'of the host' }).$extends({ name: 'another' })
    await extended.$transaction(async (transaction) => {
      await transaction.rateLimitRule.create({ data: { name: 'first', pathPattern: '^/', rate: '1/m' } })
    })
    assert.deepEqual(names(), ['first'])
  })

  test('of many writes at once, all are in force when they are resolved', async (t) => {
    const { client, names } = await start(t)
    const many = Array.from({ length: 20 }, (_, place) => `rule-${place}`)
    await Promise.all(
      many.map(async (name) => {
        await client.rateLimitRule.create({ data: { name, pathPattern: '^/', rate: '1/m' } })
        assert.ok(names().includes(name), name)
      }),
    )
  })

  test('the last good rules stay in force while the table fails, which is logged once, and once when it is back', async (t) => {
    const { client, database, current, names, lines, table } = await start(t)
    await client.rateLimitRule.create({ data: { name: 'kept', pathPattern: '^/', rate: '1/m' } })
    await database.execute(`ALTER TABLE ${table} RENAME TO away`)
    for (let times = 0; times < 3; times++) await current.reload()
    assert.deepEqual([names(), current.isFailing], [['kept'], true])
    const away = table.replace('rate_limit_rule', 'away')
    await database.execute(`ALTER TABLE ${away} RENAME TO rate_limit_rule`)
    await current.reload()
    assert.deepEqual([names(), current.isFailing], [['kept'], false])
    assert.deepEqual(lines, [
      'Rate limit rule created',
      'Rate limit rules and overrides cannot be read: the last good ones stay in force',
      'Rate limit rules and overrides can be read again',
    ])
  })

  test('a row that is not valid is reported once, not at every reading', async (t) => {
    const { database, current, lines, table } = await start(t)
    await database.execute(`INSERT INTO ${table} (name, path_pattern, rate) VALUES ('bad', '^/', 'often')`)
    for (let times = 0; times < 3; times++) await current.reload()
    assert.deepEqual(lines, ['Rate limit rule skipped: it is not valid', 'Rate limit rule created'])
  })

  test('every change is logged once, when it is in force; of many changes at once, twenty are', async (t) => {
    const { client, current, lines, details } = await start(t)
    const data = { name: 'search', pathPattern: '^/', rate: '1/m' }
    await asActor('alice', () => fromSource('panel', async () => client.rateLimitRule.create({ data })))
    await client.rateLimitRule.update({ where: { name: 'search' }, data: { rate: '2/m' } })
    await current.reload()
    await client.rateLimitRule.delete({ where: { name: 'search' } })
    const says = ['created', 'updated', 'deleted'].map((action) => `Rate limit rule ${action}`)
    assert.deepEqual(lines, says)
    assert.deepEqual(details[0], { rule: 'search', action: 'create', actor: 'alice', source: 'panel' })

    lines.length = 0
    const clients = Array.from({ length: 30 }, (_, place) => ({ client: `user:${place}`, effect: 'deny' }))
    await client.rateLimitOverride.createMany({ data: clients })
    await current.reload()
    assert.equal(lines.filter((line) => line === 'Rate limit override created').length, 20)
    assert.equal(lines.at(-1), 'Rate limit rules or overrides changed: 10 more')
    assert.equal(lines.length, 21)
  })

  async function start(t: TestContext) {
    const { client, database, close } = await open()
    const lines: string[] = []
    const details: object[] = []
    function note(detail: object, message: string): void {
      lines.push(message)
      details.push(detail)
    }
    const log = { error: note, warn: note, info: note }
    const current = new CurrentSnapshot({
      database,
      router: ROUTER,
      isInUse: true,
      ttlMs: 60_000,
      timeoutMs: 5_000,
      now: () => 0,
      log,
    })
    atEnd(t, async () => {
      await current.close()
      await close()
    })
    await current.start()
    const table = database.dialect.table('rate_limit_rule')
    return {
      client,
      database,
      current,
      lines,
      details,
      table,
      names: () => current.lastGood().rules.rules.map(({ name }) => name),
    }
  }
})
