/** All changes of one action are reverted together. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RevertError } from '../../../src/ground/errors.js'
import { exportRules, importRules } from '../../../src/rules/exchange/exchange.js'
import { listChanges } from '../../../src/rules/history/history.js'
import { revertChange } from '../../../src/rules/history/revert.js'
import { OVERRIDES } from '../../../src/rules/overrides/override.js'
import { RULES } from '../../../src/rules/rule.js'
import { changeLocked, changeRows, LockedTable } from '../../../src/rules/table.js'
import { openDatabase } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'
import { long } from '../../support/long.js'

const clock = fakeClock()
const RULE = { pathPattern: '^/api/', rate: '5/m' }
const MANY = 10_000

forEachDatabase((provider) => {
  test('an import is undone as a whole: what it created, changed, renamed and deleted', async (t) => {
    const { database, rules, overrides, document, revertNewest } = await open(t, provider)
    await rules.createMany({ data: ['kept', 'changed', 'gone'].map((name) => ({ ...RULE, name })) })
    await overrides.create({ data: { client: 'user:1', effect: 'deny', note: 'before' } })
    const before = await document()
    const imported = {
      version: 1,
      rules: ['kept', 'changed', 'new'].map((name) => ({ ...RULE, name, rate: name === 'kept' ? '5/m' : '9/m' })),
      overrides: [
        { client: 'user:1', effect: 'allow' },
        { client: 'user:2', effect: 'deny' },
      ],
    }
    await importRules(database, clock, imported)
    assert.notDeepEqual(await document(), before)
    const ids = new Set((await listChanges(database, undefined, { limit: 5 })).map(({ actionId }) => actionId))
    assert.equal(ids.size, 1)
    await revertNewest()
    assert.deepEqual(await document(), before)
  })

  test('the revert of an action is an action, which is reverted in turn', async (t) => {
    const { database, rules, document, revertNewest } = await open(t, provider)
    await rules.createMany({ data: ['a', 'b'].map((name) => ({ ...RULE, name })) })
    await changeRows(database, RULES, clock.now(), (table) => table.delete('true', []))
    const emptied = await document()
    await revertNewest()
    const restored = await document()
    assert.equal((await rules.findMany()).length, 2)
    await revertNewest()
    assert.deepEqual(await document(), emptied)
    await revertNewest()
    assert.deepEqual(await document(), restored)
  })

  test('where one row was changed since, nothing of the action is reverted', async (t) => {
    const { database, rules, revertNewest } = await open(t, provider)
    await rules.createMany({ data: ['a', 'b', 'c'].map((name) => ({ ...RULE, name })) })
    const ids = (await rules.findMany()).map(({ id }) => Number(id))
    await changeRows(database, RULES, clock.now(), (table) => table.setFields(ids, { rate: '9/m' }))
    const [bulk] = await listChanges(database, undefined)
    await rules.update({ where: { name: 'b' }, data: { rate: '7/m' } })
    await assert.rejects(
      () => revertChange(database, clock.now(), bulk?.id ?? 0),
      (error) =>
        error instanceof RevertError && /rule "b" cannot be reverted: it was changed again/.test(error.message),
    )
    assert.deepEqual(
      (await rules.findMany({ orderBy: { name: 'asc' } })).map(({ rate }) => rate),
      ['9/m', '7/m', '9/m'],
    )
    // Another field is no conflict.
    await revertNewest()
    await rules.update({ where: { name: 'c' }, data: { priority: 3 } })
    await revertChange(database, clock.now(), bulk?.id ?? 0)
    const reverted = await rules.findMany({ orderBy: { name: 'asc' } })
    assert.deepEqual(
      reverted.map(({ rate, priority }) => [rate, priority]),
      [
        ['5/m', 0],
        ['5/m', 0],
        ['5/m', 3],
      ],
    )
  })

  test('a row that an action changed twice goes back to what it was before both', async (t) => {
    const { database, rules, revertNewest } = await open(t, provider)
    await rules.create({ data: { ...RULE, name: 'a' } })
    await changeLocked(database, [RULES], function* () {
      const table = new LockedTable(RULES, database, clock.now())
      for (const values of [{ name: 'b' }, { name: 'c', rate: '9/m' }]) {
        const [row] = yield* table.find('true', [])
        if (row !== undefined) yield* table.update(row, values)
      }
    })
    assert.equal((await rules.findFirstOrThrow()).name, 'c')
    await revertNewest()
    const { name, rate } = await rules.findFirstOrThrow()
    assert.deepEqual([name, rate], ['a', '5/m'])
  })

  test('writes of a host stand alone, as do those of raw SQL', async (t) => {
    const { database, rules, revertNewest } = await open(t, provider)
    await rules.create({ data: { ...RULE, name: 'a' } })
    await rules.create({ data: { ...RULE, name: 'b' } })
    await revertNewest()
    assert.deepEqual(
      (await rules.findMany()).map(({ name }) => name),
      ['a'],
    )
    await database.query(`UPDATE ${database.dialect.table('rate_limit_rule')} SET rate = '8/m' RETURNING id`)
    await database.query(`UPDATE ${database.dialect.table('rate_limit_rule')} SET priority = 4 RETURNING id`)
    await revertNewest()
    const { rate, priority } = await rules.findFirstOrThrow()
    assert.deepEqual([rate, priority], ['8/m', 0])
  })

  test('ten thousand overrides that ended together are in force again by one revert', long(), async (t) => {
    const { database, overrides, revertNewest } = await open(t, provider)
    await overrides.createMany({
      data: Array.from({ length: MANY }, (_, index) => ({ client: `user:${index}`, effect: 'deny' })),
    })
    await changeRows(database, OVERRIDES, clock.now(), (table) => table.delete('true', []))
    assert.equal(await overrides.count(), 0)
    await revertNewest()
    assert.equal(await overrides.count(), MANY)
  })
})

async function open(t: TestContext, provider: Provider) {
  const { database, client } = await openDatabase(t, provider)
  return {
    database,
    rules: client.rateLimitRule,
    overrides: client.rateLimitOverride,
    document: () => exportRules(database, clock),
    async revertNewest() {
      const [newest] = await listChanges(database, undefined, { limit: 1 })
      await revertChange(database, clock.now(), newest?.id ?? 0)
    },
  }
}
