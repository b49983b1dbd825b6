/** What is read of rules and overrides is all of one moment, however much is read and whatever is written meanwhile. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Database } from '../../../src/database/database.js'
import type { SqlValue } from '../../../src/database/dialect.js'
import { PatternIndex } from '../../../src/rules/patterns/pattern-index.js'
import type { RuleSet } from '../../../src/rules/rule-set.js'
import { SnapshotReader } from '../../../src/rules/snapshot/current-snapshot.js'
import { atEnd } from '../../support/at-end.js'
import { forEachDatabase } from '../../support/databases.js'
import { long } from '../../support/long.js'

const MANY = 1_200
const ROUTER = { caseSensitive: true, ignoreTrailingSlash: false }

forEachDatabase((provider, open) => {
  test('thousands of rules and overrides are all read, a thousand at a time', async (t) => {
    const { database, reader } = await openRows(t, MANY)
    const sizes = watchPages(t, database)
    const { rules, overrides, rejected } = await reader.load()

    assert.deepEqual([rules.rules.length, overrides.size, rejected], [MANY, MANY, []])
    assert.deepEqual(sizes.slice(0, 4), [1_000, 200, 1_000, 200])
  })

  test('what is changed while it is read is read again', async (t) => {
    const { database, reader, change } = await openRows(t)
    let times = 0
    const sizes = watchPages(t, database, async () => {
      if (sizes.length > 0 && times++ < 2) await change()
    })
    assert.deepEqual(limitsOf(await reader.load()), { rules: [12], overrides: [12] })
  })

  test('what is changed all the time is read at one moment all the same', async (t) => {
    const { database, reader, change } = await openRows(t)
    watchPages(t, database, change)
    for (let times = 0; times < 2; times++) {
      const { rules, overrides } = limitsOf(await reader.load())
      assert.equal(rules.length, 1)
      assert.deepEqual(overrides, rules)
    }
  })

  test('a snapshot is the one of before until something changes', async (t) => {
    const { reader, client } = await openRows(t)
    const before = await reader.load()
    assert.equal(await reader.load(), before)
    reader.expire()
    assert.equal(await reader.load(), before)
    await client.rateLimitOverride.update({ where: { id: 1 }, data: { effect: 'deny' } })
    const after = await reader.load()
    assert.equal(after.rules, before.rules)
    assert.notEqual(after.overrides, before.overrides)
    assert.deepEqual(
      [before, after].map(({ overrides }) => overrides.find(null, '0', '/', 0)?.effect === 'deny'),
      [false, true],
    )
  })

  test('an edit of one rule among many reads that rule alone, and compiles what is new', long(), async (t) => {
    const { client, database, reader } = await openRows(t, MANY)
    const before = await reader.load()
    const compiled = t.mock.method(PatternIndex, 'compile')
    const edit = async (name: string, data: Parameters<typeof client.rateLimitRule.update>[0]['data']) => {
      await client.rateLimitRule.update({ where: { name }, data })
      const read = watchRows(t, database)
      const after = await reader.load()
      assert.ok(read() < 250, `${read()} rows were read`)
      return after.rules
    }
    const limited = await edit('rule-7', { rate: '11/m' })
    assert.equal(limited.match('/7', 'GET', 0)?.policy.limit, 11)
    assert.equal(compiled.mock.callCount(), 0)
    const others = ({ rules }: RuleSet) => rules.filter(({ name }) => name !== 'rule-7')
    for (const [place, rule] of others(limited).entries()) assert.equal(rule, others(before.rules)[place])

    const moved = await edit('rule-7', { pathPattern: '^/seven$', priority: 1 })
    assert.deepEqual([moved.match('/7', 'GET', 0), moved.rules[0]?.name], [undefined, 'rule-7'])
    assert.equal(moved.match('/seven', 'GET', 0)?.name, 'rule-7')
    assert.equal(compiled.mock.callCount(), 1)
    const off = await edit('rule-7', { isActive: false })
    assert.deepEqual([off.match('/seven', 'GET', 0), off.size], [undefined, MANY - 1])
    const on = await edit('rule-7', { isActive: true })
    assert.deepEqual([on.match('/seven', 'GET', 0)?.name, on.size], ['rule-7', MANY])
  })

  test('rules that are renamed, exchanged, replaced, deleted or made by raw SQL are followed', async (t) => {
    const { client, database, reader } = await openRows(t)
    await reader.load()
    const table = database.dialect.table('rate_limit_rule')
    const names = async (...statements: string[]) => {
      await database.transaction(statements.map((sql) => ({ sql, parameters: [] })))
      const { rules } = await reader.load()
      return rules.rules.map(({ name, pathPattern }) => `${name} ${pathPattern}`)
    }
    assert.deepEqual(
      await names(
        `UPDATE ${table} SET name = 'between' WHERE name = 'rule-0'`,
        `UPDATE ${table} SET name = 'rule-0' WHERE name = 'rule-1'`,
        `UPDATE ${table} SET name = 'rule-1' WHERE name = 'between'`,
      ),
      ['rule-0 ^/1$', 'rule-1 ^/0$', 'rule-2 ^/2$'],
    )
    if (provider === 'sqlite') {
      const columns = '(name, path_pattern, rate, updated_at)'
      const rows = await names(`INSERT OR REPLACE INTO ${table} ${columns} VALUES ('rule-2', '^/two$', '5/m', 0)`)
      assert.deepEqual(rows, ['rule-0 ^/1$', 'rule-1 ^/0$', 'rule-2 ^/two$'])
    }
    assert.deepEqual(await names(`UPDATE ${table} SET rate = 'often' WHERE name = 'rule-2'`), [
      'rule-0 ^/1$',
      'rule-1 ^/0$',
    ])
    assert.equal(reader.snapshot.rejected.length, 1)
    await client.rateLimitRule.deleteMany({ where: { name: { not: 'rule-0' } } })
    assert.deepEqual(await names(), ['rule-0 ^/1$'])
    assert.equal(reader.snapshot.rejected.length, 0)
  })

  test('rules are split by group: in each by priority and name, the groups by name', async (t) => {
    const { client, reader } = await openRows(t)
    const data = { pathPattern: '^/', rate: '10/m' }
    const split = async () => {
      const { rules, groups } = await reader.load()
      return [rules, ...groups].map((set) => set.rules.map(({ group, name }) => `${group}:${name}`))
    }
    const unnamed = [':rule-0', ':rule-1', ':rule-2']
    const withoutGroups = (await reader.load()).groups
    assert.deepEqual(await split(), [unnamed])
    await client.rateLimitRule.createMany({
      data: [
        { ...data, name: 'user', group: 'user', key: 'user' },
        { ...data, name: 'b', group: 'org' },
        { ...data, name: 'a', group: 'org', priority: -1 },
      ],
    })
    assert.deepEqual(await split(), [unnamed, ['org:b', 'org:a'], ['user:user']])
    const { groups, needUsers } = await reader.load()
    assert.deepEqual([groups[0]?.match('/', 'GET', 0)?.name, needUsers], ['b', true])
    await client.rateLimitRule.update({ where: { name: 'b' }, data: { group: 'user', priority: 1 } })
    assert.deepEqual(await split(), [unnamed, ['org:a'], ['user:b', 'user:user']])
    await client.rateLimitRule.updateMany({ where: { group: { not: '' } }, data: { isActive: false } })
    assert.deepEqual(await split(), [unnamed])
    const after = await reader.load()
    assert.deepEqual([after.groups === withoutGroups, after.needUsers], [true, false])
  })

  /** Rules and overrides that all have the same limit, and what changes the limit of them all. */
  async function openRows(t: TestContext, count = 3) {
    const { client, database, close } = await open()
    atEnd(t, close)
    const places = Array.from({ length: count }, (_, place) => place)
    await client.rateLimitRule.createMany({
      data: places.map((place) => ({ name: `rule-${place}`, pathPattern: `^/${place}$`, rate: '10/m' })),
    })
    await client.rateLimitOverride.createMany({ data: places.map((id) => ({ client: `user:${id}`, effect: '10/m' })) })
    let limit = 10
    async function change(): Promise<void> {
      limit++
      await client.$transaction([
        client.rateLimitRule.updateMany({ data: { rate: `${limit}/m` } }),
        client.rateLimitOverride.updateMany({ data: { effect: `${limit}/m` } }),
      ])
    }
    const reader = new SnapshotReader({ database, router: ROUTER, ttlMs: 60_000, now: () => 0 })
    return { client, database, reader, change }
  }
})

/** The limits that occur. */
function limitsOf({ rules, overrides }: Awaited<ReturnType<SnapshotReader['load']>>) {
  return {
    rules: [...new Set(rules.rules.map(({ policy }) => policy.limit))],
    overrides: [...new Set([...overrides.all()].map(({ effect }) => typeof effect === 'object' && effect.limit))],
  }
}

/** Returns a function that answers how many rows have been read. */
function watchRows(t: TestContext, database: Database): () => number {
  let read = 0
  const { query } = database
  const watched = t.mock.method(database, 'query', async (sql: string, parameters?: readonly SqlValue[]) => {
    const rows = await query(sql, parameters)
    read += rows.length
    return rows
  })
  return () => {
    watched.mock.restore()
    return read
  }
}

/** The sizes of the pages that are read. */
function watchPages(t: TestContext, database: Database, before: () => unknown = () => undefined): number[] {
  const sizes: number[] = []
  const { query } = database
  t.mock.method(database, 'query', async (sql: string, parameters?: readonly SqlValue[]) => {
    if (!sql.includes('LIMIT')) return query(sql, parameters)
    await before()
    const rows = await query(sql, parameters)
    sizes.push(rows.length)
    return rows
  })
  return sizes
}
