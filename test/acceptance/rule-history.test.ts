/** Operators see who changed which rule, and take changes back. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { asActor, RevertError } from '../../src/index.js'
import { createRateLimitClient } from '../../src/plugin/client/client.js'
import { openDatabase, startApp } from '../support/build-app.js'
import { forAnyDatabase, type Provider } from '../support/databases.js'
import { long } from '../support/long.js'

/** A busy machine is no reason to give a transaction up. */
const PATIENT = { timeout: 60_000, maxWait: 60_000 }

const RULE = { name: 'api', pathPattern: '^/api/', rate: '2/m' }

forAnyDatabase((provider) => {
  test('every write through the client is recorded once, with who made it', async (t) => {
    const { rules, overrides, summary } = await start(t, provider)
    await asActor('alice', async () => {
      await rules.create({ data: RULE })
      await rules.createMany({
        data: [
          { ...RULE, name: 'b' },
          { ...RULE, name: 'c' },
        ],
      })
    })
    await asActor('bob', () => rules.update({ where: { name: 'api' }, data: { rate: '3/m' } }))
    await rules.updateMany({ where: { name: { in: ['b', 'c'] } }, data: { isActive: false } })
    await rules.updateManyAndReturn({ where: { name: 'b' }, data: { isActive: false } })
    await asActor('carol', () => rules.upsert({ where: { name: 'api' }, create: RULE, update: { rate: '4/m' } }))
    await asActor('dave', () => rules.delete({ where: { name: 'b' } }))
    await asActor('erin', () => rules.deleteMany({ where: { name: { in: ['api', 'c'] } } }))
    await asActor('erin', () => overrides.create({ data: { client: 'user:7', effect: 'deny' } }))

    // A statement that changes several rows does so in whatever order it likes.
    assert.deepEqual((await summary()).sort(), [
      'create override user:7 by erin',
      'create rule api by alice',
      'create rule b by alice',
      'create rule c by alice',
      'delete rule api by erin',
      'delete rule b by dave',
      'delete rule c by erin',
      'update rule api by bob',
      'update rule api by carol',
      'update rule b by ',
      'update rule c by ',
    ])
  })

  test('the actor is right inside of transactions, and empty for raw SQL that follows', async (t) => {
    const { client, rules, summary, run } = await start(t, provider)
    await asActor('alice', () =>
      client.$transaction(async (transaction) => {
        await transaction.rateLimitRule.create({ data: RULE })
        await transaction.rateLimitRule.create({ data: { ...RULE, name: 'b' } })
        await transaction.rateLimitRule.delete({ where: { name: 'b' } })
      }, PATIENT),
    )
    await asActor('bob', () =>
      client.$transaction([
        rules.update({ where: { name: 'api' }, data: { rate: '3/m' } }),
        rules.create({ data: { ...RULE, name: 'c' } }),
        rules.deleteMany({ where: { name: 'api' } }),
      ]),
    )
    await assert.rejects(
      asActor('mallory', () =>
        client.$transaction([
          rules.delete({ where: { name: 'c' } }),
          rules.update({ where: { name: 'nobody' }, data: { rate: '3/m' } }),
        ]),
      ),
    )
    await run(`UPDATE rate_limit_rule SET rate = '9/m'`)
    await run('DELETE FROM rate_limit_rule')

    assert.deepEqual(await summary(), [
      'create rule api by alice',
      'create rule b by alice',
      'delete rule b by alice',
      'update rule api by bob',
      'create rule c by bob',
      'delete rule api by bob',
      'update rule c by SQL',
      'delete rule c by SQL',
    ])
  })

  test('a client closes at once, also when a transaction with a deletion has just failed', long(), async (t) => {
    const { url, schema } = await openDatabase(t, provider)
    for (let times = 0; times < 40; times += 2) {
      const client = createRateLimitClient({ database: url, schema, threads: false })
      await client.rateLimitRule.upsert({ where: { name: 'api' }, create: RULE, update: RULE })
      await assert.rejects(
        client.$transaction([
          client.rateLimitRule.delete({ where: { name: 'api' } }),
          client.rateLimitRule.update({ where: { name: 'nobody' }, data: { rate: '3/m' } }),
        ]),
      )
      // At every stage of what still follows the failure.
      for (let turns = 0; turns < times; turns++) await turn()
      await client.$disconnect()
    }
  })

  test('the history of one rule follows it through a new name, the newest first, as many as asked for', async (t) => {
    const { rules, app } = await start(t, provider)
    await rules.createMany({ data: [RULE, { ...RULE, name: 'other' }] })
    await rules.update({ where: { name: 'api' }, data: { name: 'api-2' } })

    for (const name of ['api', 'api-2']) {
      const changes = await app.smartRateLimit.rules.history(name)
      assert.deepEqual(
        changes.map(({ action, before, after }) => [action, before?.name, after?.name]),
        [
          ['update', 'api', 'api-2'],
          ['create', undefined, 'api'],
        ],
      )
      assert.ok(Math.abs(Number(changes[0]?.changedAt) - Date.now()) < 600_000)
    }
    assert.equal((await app.smartRateLimit.rules.history()).length, 3)
    assert.equal((await app.smartRateLimit.rules.history('api', { limit: 1 })).length, 1)
    for (const absent of ['', 'absent', 'api\0']) {
      assert.deepEqual(await app.smartRateLimit.rules.history(absent), [])
    }
    await assert.rejects(app.smartRateLimit.rules.history('api', { limit: 0 }), RangeError)
  })

  test('reverting takes back an update, a creation and a deletion, is recorded, and is obeyed by the next request', async (t) => {
    const { rules, app, limitOf, latest } = await start(t, provider)
    const { revert } = app.smartRateLimit.rules
    await rules.create({ data: { ...RULE, priority: 3, description: 'the API' } })
    const created = await latest()
    await rules.update({ where: { name: 'api' }, data: { rate: '9/m', method: 'GET' } })
    const updated = await latest()
    await rules.update({ where: { name: 'api' }, data: { priority: 4 } })

    await asActor('alice', () => revert(updated))
    assert.equal(await limitOf('/api/x'), '2')
    const { rate, method, priority } = await rules.findUniqueOrThrow({ where: { name: 'api' } })
    assert.deepEqual([rate, method, priority], ['2/m', 'ALL', 4])
    const [change] = await app.smartRateLimit.rules.history('api')
    assert.deepEqual([change?.action, change?.actor, change?.source], ['update', 'alice', 'client'])

    await rules.delete({ where: { name: 'api' } })
    const deleted = await latest()
    await revert(deleted)
    assert.equal(await limitOf('/api/x'), '2')
    assert.equal((await rules.findUniqueOrThrow({ where: { name: 'api' } })).description, 'the API')
    await rules.update({ where: { name: 'api' }, data: { priority: 3 } })
    await revert(created)
    assert.equal(await rules.count(), 0)
    assert.equal(await limitOf('/api/x'), '1000')
  })

  test('a change whose traces are gone is not reverted', async (t) => {
    const { rules, app, latest, run } = await start(t, provider)
    const { revert } = app.smartRateLimit.rules
    await rules.create({ data: RULE })
    const created = await latest()
    await rules.update({ where: { name: 'api' }, data: { rate: '9/m' } })
    const updated = await latest()
    await rules.update({ where: { name: 'api' }, data: { rate: '10/m' } })

    await assert.rejects(revert(updated), /update|changed again since/)
    await assert.rejects(revert(created), RevertError)
    for (const none of [999_999, -1, 1.5, Number.NaN]) await assert.rejects(revert(none), /There is no change/)
    await rules.delete({ where: { name: 'api' } })
    const deleted = await latest()
    await rules.create({ data: RULE })
    await assert.rejects(revert(deleted), /there is a rule "api" again$/)
    await rules.update({ where: { name: 'api' }, data: { name: 'moved' } })
    const renamed = await latest()
    await rules.create({ data: RULE })
    await assert.rejects(revert(renamed), /there is a rule "api" again$/)
    await rules.delete({ where: { name: 'moved' } })
    await run(`UPDATE rate_limit_rule SET rate = 'soon'`)
    await rules.update({ where: { name: 'api' }, data: { rate: '5/m' } })
    await assert.rejects(revert(await latest()), { name: 'FastifyError', code: 'FST_RATE_LIMIT_INVALID_RULE' })
    assert.equal((await rules.findUniqueOrThrow({ where: { name: 'api' } })).rate, '5/m')
  })

  test('a change names its source: the client, an import, or raw SQL', async (t) => {
    const { app, rules, run } = await start(t, provider)
    await rules.create({ data: RULE })
    await asActor('alice', () => app.smartRateLimit.rules.import({ version: 1, rules: [{ ...RULE, priority: 5 }] }))
    await run("UPDATE rate_limit_rule SET rate = '7/m'")
    await asActor('bob', () => app.smartRateLimit.rules.import({ version: 1, rules: [] }))

    const changes = await app.smartRateLimit.rules.history()
    assert.deepEqual(
      changes.map(({ action, source, actor }) => [action, source, actor]),
      [
        ['delete', 'import', 'bob'],
        ['update', 'sql', ''],
        ['update', 'import', 'alice'],
        ['create', 'client', ''],
      ],
    )
  })

  test('an override is taken back with its expiry', async (t) => {
    const { overrides, app, latest } = await start(t, provider)
    const expiresAt = new Date(Date.UTC(2030, 0, 1, 0, 0, 0, 123))
    await overrides.create({ data: { client: 'ip:10.0.0.0/8', effect: '5/m', note: 'crawler', expiresAt } })
    await overrides.update({
      where: { client_pathPattern: { client: 'ip:10.0.0.0/8', pathPattern: '' } },
      data: { expiresAt: null, effect: 'deny' },
    })
    await app.smartRateLimit.rules.revert(await latest())
    await overrides.deleteMany()
    await app.smartRateLimit.rules.revert(await latest())

    const { effect, note, expiresAt: restored } = await overrides.findFirstOrThrow()
    assert.deepEqual([effect, note, restored], ['5/m', 'crawler', expiresAt])
    assert.equal((await app.smartRateLimit.rules.history('ip:10.0.0.0/8')).length >= 2, true)
  })
})

async function start(t: TestContext, provider: Provider) {
  const { database, ...opened } = await openDatabase(t, provider)
  const started = await startApp(t, {
    database: { database, ...opened },
    plugin: { useDynamicRules: true, middleware: { defaultRate: '1000/m', backend: 'memory' } },
  })
  const { client, rules } = started.app.smartRateLimit
  return {
    ...started,
    client,
    rules: client.rateLimitRule,
    overrides: client.rateLimitOverride,
    run: (sql: string) => database.execute(sql.replace(/rate_limit_\w+/g, database.dialect.table)),
    limitOf: async (path: string) => (await started.request(path)).headers['x-ratelimit-limit'],
    latest: async () => (await rules.history(undefined, { limit: 1 }))[0]?.id ?? 0,
    summary: async () =>
      (await rules.history())
        .reverse()
        .map(
          ({ action, entity, name, source, actor }) =>
            `${action} ${entity} ${name} by ${source === 'sql' ? 'SQL' : actor}`,
        ),
  }
}
