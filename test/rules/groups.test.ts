/** Rules have at most eight groups, whoever writes them and however many write at once. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { RuleDocumentError, RuleValidationError } from '../../src/ground/errors.js'
import { type Clock, systemClock } from '../../src/ground/time/clock.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import type { Values } from '../../src/rules/description.js'
import { exportRules, importRules } from '../../src/rules/exchange/exchange.js'
import { listChanges } from '../../src/rules/history/history.js'
import { revertChange } from '../../src/rules/history/revert.js'
import { RULES } from '../../src/rules/rule.js'
import { loadActiveRules } from '../../src/rules/rule-repository.js'
import { changeRows } from '../../src/rules/table.js'
import { atEnd } from '../support/at-end.js'
import { openDatabase } from '../support/build-app.js'
import { forEachDatabase, type Provider } from '../support/databases.js'
import { refusalOf } from '../support/refusal.js'

const CLOCK: Clock = systemClock
const SEVEN = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
const PROBLEM =
  '"ninth" would be one group more than the 8 that are allowed: give one of a, b, c, d, e, f, g, or an empty text for the group without a name'

function ruleIn(group: string, name = `rule-${group}`) {
  return { name, group, pathPattern: '^/', rate: '5/m' }
}

forEachDatabase((provider) => {
  test('a ninth group is refused by every write of the client, with its name and those that there are', async (t) => {
    const { client, groups } = await open(t, provider)
    await client.rateLimitRule.createMany({ data: SEVEN.map((group) => ruleIn(group)) })
    await client.rateLimitRule.update({ where: { name: 'rule-a' }, data: { isActive: false } })
    await client.rateLimitRule.create({ data: ruleIn('b', 'second') })
    const { rateLimitRule: rules } = client
    const ninth = ruleIn('ninth')
    const writes: Record<string, () => Promise<unknown>> = {
      create: async () => rules.create({ data: ninth }),
      createMany: async () => rules.createMany({ data: [ruleIn('a', 'x'), ninth] }),
      update: async () => rules.update({ where: { name: 'second' }, data: { group: { set: 'ninth' } } }),
      updateMany: async () => rules.updateMany({ where: { name: 'second' }, data: { group: 'ninth' } }),
      upsert: async () => rules.upsert({ where: { name: 'x' }, create: ninth, update: {} }),
      'upsert of a rule that is there': async () =>
        rules.upsert({ where: { name: 'second' }, create: ruleIn('a', 'x'), update: { group: 'ninth' } }),
      'a transaction': () => client.$transaction(async (tx) => tx.rateLimitRule.create({ data: ninth })),
      'a list of writes': () => client.$transaction([rules.create({ data: ninth })]),
    }
    const before = await groups()
    for (const [name, write] of Object.entries(writes)) {
      const { errors } = await refusalOf(write())
      assert.deepEqual(errors, { group: PROBLEM }, name)
    }
    assert.deepEqual(await groups(), before)
  })

  test('a transaction that goes on after the refusal has eight groups; so has one of many writes', async (t) => {
    const { client, groups } = await open(t, provider)
    await client.$transaction(async (tx) => {
      for (const group of [...SEVEN, 'ninth', '']) {
        await tx.rateLimitRule.create({ data: ruleIn(group) }).catch((error: unknown) => {
          assert.ok(error instanceof RuleValidationError)
        })
      }
    })
    assert.deepEqual(await groups(), ['', ...SEVEN])
    await client.rateLimitRule.deleteMany()
    const { rateLimitRule: rules } = client
    const created = (...names: string[]) => names.map((group) => rules.create({ data: ruleIn(group) }))
    await refusalOf(client.$transaction(created(...SEVEN, 'ninth')))
    assert.deepEqual(await groups(), [])
    await client.$transaction(created('', ...SEVEN))
    assert.deepEqual(await groups(), ['', ...SEVEN])
  })

  test('a group that becomes empty makes room for another one, also in one write', async (t) => {
    const { client, groups } = await open(t, provider)
    const { rateLimitRule: rules } = client
    await rules.createMany({ data: [...SEVEN.map((group) => ruleIn(group)), ruleIn('b', 'second')] })
    await rules.update({ where: { name: 'rule-a' }, data: { group: 'z' } })
    await rules.updateMany({ where: { group: 'b' }, data: { group: 'y' } })
    await client.$transaction(async (tx) => {
      await tx.rateLimitRule.delete({ where: { name: 'rule-c' } })
      await tx.rateLimitRule.create({ data: ruleIn('x') })
    })
    assert.deepEqual(await groups(), ['d', 'e', 'f', 'g', 'x', 'y', 'z'])
  })

  test('of many who add a group at once, through two clients, as many as there is room for do', async (t) => {
    const { client, database, groups, second } = await open(t, provider)
    await client.rateLimitRule.createMany({ data: ['a', 'b', 'c', 'd'].map((group) => ruleIn(group)) })
    const results = await Promise.allSettled(
      Array.from({ length: 12 }, (_, index) => {
        const rule = ruleIn(`new-${index}`)
        if (index % 4 === 0) return changeRows(database, RULES, CLOCK.now(), (table) => table.create(rule))
        const { rateLimitRule } = index % 4 === 1 ? client : second
        if (index % 4 !== 3) return rateLimitRule.create({ data: rule })
        return client.$transaction(async (tx) => tx.rateLimitRule.create({ data: rule }), {
          maxWait: 60_000,
          timeout: 60_000,
        })
      }),
    )
    const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
    for (const error of refused) assert.match(String(error), /would be one group more than the 8/)
    assert.equal(refused.length, 9)
    assert.equal((await groups()).length, 7)
  })

  test('a ninth group is refused where a row is written, and in an import by its place in the document', async (t) => {
    const { client, database, groups } = await open(t, provider)
    await client.rateLimitRule.createMany({ data: SEVEN.map((group) => ruleIn(group)) })
    const create = (values: Values) => changeRows(database, RULES, CLOCK.now(), (table) => table.create(values))
    assert.deepEqual((await refusalOf(create(ruleIn('ninth')))).errors, { group: PROBLEM })

    const document = { version: 1, rules: [ruleIn('a'), ruleIn('ninth')] }
    for (const dryRun of [true, false]) {
      await assert.rejects(
        () => importRules(database, CLOCK, document, { keep: true, dryRun }),
        (error) => error instanceof RuleDocumentError && error.errors['rules[1].group'] === PROBLEM,
      )
    }
    assert.deepEqual(await groups(), SEVEN)
    // Without the others there is room; renamed groups need none.
    await importRules(database, CLOCK, document)
    assert.deepEqual(await groups(), ['a', 'ninth'])
    const { rules } = await exportRules(database, CLOCK)
    await importRules(database, CLOCK, { version: 1, rules: SEVEN.map((group) => ruleIn(group)) })
    await importRules(database, CLOCK, {
      version: 1,
      rules: SEVEN.map((group) => ruleIn(`${group}-2`, `rule-${group}`)),
    })
    assert.deepEqual(
      await groups(),
      SEVEN.map((group) => `${group}-2`),
    )
    await importRules(database, CLOCK, { version: 1, rules })
    assert.deepEqual(await groups(), ['a', 'ninth'])
  })

  test('a revert that would bring back a ninth group is refused', async (t) => {
    const { client, database, groups } = await open(t, provider)
    const { rateLimitRule: rules } = client
    await rules.create({ data: ruleIn('ninth') })
    await rules.delete({ where: { name: 'rule-ninth' } })
    const [deleted] = await listChanges(database, undefined)
    await rules.createMany({ data: SEVEN.map((group) => ruleIn(group)) })
    const { errors } = await refusalOf(revertChange(database, CLOCK.now(), deleted?.id ?? 0))
    assert.deepEqual(errors, { group: PROBLEM })
    await rules.delete({ where: { name: 'rule-g' } })
    await revertChange(database, CLOCK.now(), deleted?.id ?? 0)
    assert.deepEqual(await groups(), ['a', 'b', 'c', 'd', 'e', 'f', 'ninth'])
  })

  test('where raw SQL wrote more groups the first by name apply, and their rules can still be edited', async (t) => {
    const { client, database, groups } = await open(t, provider)
    const { rateLimitRule: rules } = client
    await rules.createMany({ data: ['', ...SEVEN].map((group) => ruleIn(group)) })
    const table = database.dialect.table('rate_limit_rule')
    for (const group of ['ninth', 'tenth']) {
      await database.execute(
        `INSERT INTO ${table} (name, path_pattern, rate, group_name) VALUES ('rule-${group}', '^/', '5/m', '${group}')`,
      )
    }
    const loaded = await loadActiveRules(database)
    assert.deepEqual(loaded.rules.map(({ group }) => group).sort(), ['', ...SEVEN])
    assert.deepEqual(
      loaded.rejected.map(({ name, reason }) => `${name}: ${reason}`).sort(),
      ['ninth', 'tenth'].map((group) => `rule-${group}: the group "${group}" is one more than the 8 that are allowed`),
    )
    await rules.update({ where: { name: 'rule-ninth' }, data: { group: 'ninth', rate: '6/m' } })
    await changeRows(database, RULES, CLOCK.now(), function* (table) {
      const [row] = yield* table.find('name = $1', ['rule-tenth'])
      return row !== undefined && (yield* table.update(row, { group: 'ninth' }))
    })
    await refusalOf(rules.create({ data: ruleIn('new') }))
    assert.deepEqual(await groups(), ['', ...SEVEN, 'ninth'])
  })
})

async function open(t: TestContext, provider: Provider) {
  const opened = await openDatabase(t, provider)
  const { client, database, url, schema } = opened
  const second = createRateLimitClient({ database: url, schema, threads: false })
  atEnd(t, () => second.$disconnect())
  async function groups(): Promise<string[]> {
    const rows = await client.rateLimitRule.findMany()
    return [...new Set(rows.map(({ group }) => group))].sort()
  }
  return { client, database, second, groups }
}
