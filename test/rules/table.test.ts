/** Rules and overrides are written by one writer, however many write at once. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RuleValidationError } from '../../src/ground/errors.js'
import type { Values } from '../../src/rules/description.js'
import { asActor, fromSource } from '../../src/rules/history/actor.js'
import { listChanges } from '../../src/rules/history/history.js'
import { RULES } from '../../src/rules/rule.js'
import { changeRows } from '../../src/rules/table.js'
import { openDatabase } from '../support/build-app.js'
import { fakeClock } from '../support/clock.js'
import { forEachDatabase, type Provider } from '../support/databases.js'

const NOW_MS = fakeClock().now()
const RULE = { name: 'api', pathPattern: '^/api/', rate: '5/m' }
const WRITERS = Array.from({ length: 8 }, (_, index) => index)

forEachDatabase((provider) => {
  test('of many who create the same rule at once one does, and it has all its fields', async (t) => {
    const { database, rules, actions } = await open(t, provider)
    const ids = await Promise.all(
      WRITERS.map(() => changeRows(database, RULES, NOW_MS, (table) => table.create({ ...RULE, method: 'post,get' }))),
    )
    const created = ids.filter((id) => id !== undefined)
    assert.equal(created.length, 1)
    const [row, ...others] = await rules.findMany()
    assert.deepEqual([row?.id, row?.method, row?.key, others.length], [created[0], 'POST,GET', 'ip', 0])
    assert.deepEqual(await actions(), ['create'])
  })

  test('of many who change a rule as they read it one does', async (t) => {
    const { database, rules, actions } = await open(t, provider)
    await rules.create({ data: RULE })
    const changed = await Promise.all(
      WRITERS.map((index) =>
        changeRows(database, RULES, NOW_MS, function* (table) {
          const [row] = yield* table.find('rate = $1', [RULE.rate])
          return row !== undefined && (yield* table.update(row, { rate: `${index + 10}/m` }))
        }),
      ),
    )
    assert.equal(changed.filter(Boolean).length, 1)
    assert.deepEqual(await actions(), ['create', 'update'])
  })

  test('an update writes the fields that it has, and is refused with the name of another rule, or where it is wrong', async (t) => {
    const { database, rules } = await open(t, provider)
    const startsAt = new Date(NOW_MS)
    await rules.createMany({
      data: [
        { ...RULE, startsAt, block: false },
        { ...RULE, name: 'other' },
      ],
    })
    const update = (values: Values) =>
      changeRows(database, RULES, NOW_MS, function* (table) {
        const row = yield* table.findSame(RULE)
        return row !== undefined && (yield* table.update(row, values))
      })
    assert.equal(await update({ name: 'other' }), false)
    await assert.rejects(update({ rate: 'soon', cost: 0 }), (error) => {
      return error instanceof RuleValidationError && Object.keys(error.errors).join() === 'rate,cost'
    })
    assert.equal(await update({ endsAt: '2030-01-31T12:00:00Z', priority: 7, rate: undefined }), true)
    const row = await rules.findUniqueOrThrow({ where: { name: 'api' } })
    assert.deepEqual([row.rate, row.priority, row.block, row.startsAt], ['5/m', 7, false, startsAt])
    assert.deepEqual([row.endsAt?.toISOString(), row.updatedAt.getTime()], ['2030-01-31T12:00:00.000Z', NOW_MS])
  })

  test('a deletion has its source and its actor in the history, and those of raw SQL stay', async (t) => {
    const { database, rules } = await open(t, provider)
    await rules.createMany({ data: [RULE, { ...RULE, name: 'other' }, { ...RULE, name: 'third' }] })
    await database.execute(`DELETE FROM ${database.dialect.table(RULES.table)} WHERE name = 'third'`)
    const deleted = await asActor('alice', () =>
      fromSource('api', () => changeRows(database, RULES, NOW_MS, (table) => table.delete('rate = $1', ['5/m']))),
    )
    assert.equal(deleted, 2)
    const changes = await listChanges(database, undefined, { limit: 3 })
    assert.deepEqual(changes.map(({ name, action, source, actor }) => [name, action, source, actor]).sort(), [
      ['api', 'delete', 'api', 'alice'],
      ['other', 'delete', 'api', 'alice'],
      ['third', 'delete', 'sql', ''],
    ])
  })
})

async function open(t: TestContext, provider: Provider) {
  const { database, client } = await openDatabase(t, provider)
  return {
    database,
    rules: client.rateLimitRule,
    actions: async () => (await listChanges(database, undefined)).map(({ action }) => action).reverse(),
  }
}
