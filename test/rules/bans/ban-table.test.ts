/** The rows of bans are written once each, and deleted an hour after they have expired. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/ground/time/clock.js'
import { deleteExpiredBans, type NewBan, writeBans } from '../../../src/rules/bans/ban-table.js'
import { openDatabase } from '../../support/build-app.js'
import { fakeClock } from '../../support/clock.js'
import { forEachDatabase, type Provider } from '../../support/databases.js'

const NOW_MS = fakeClock().now()

forEachDatabase((provider) => {
  test('bans that many write at once are one row each', async (t) => {
    const { database, overrides } = await open(t, provider)
    const bans = Array.from({ length: 20 }, (_, place) => ban(`ip:192.0.2.${place}`))
    const all = await Promise.all(Array.from({ length: 8 }, () => writeBans(database.database, bans, NOW_MS)))
    for (const { denied, full } of all) {
      assert.deepEqual(denied, new Set(bans.map(({ client }) => client)))
      assert.equal(full.size, 0)
    }
    assert.equal(await overrides.count(), 20)
    assert.equal(await database.client.rateLimitChange.count(), 20)
  })

  test('what is in force stays, what denies besides a ban counts as one, and an allowed client is not banned', async (t) => {
    const { database, overrides } = await open(t, provider)
    await overrides.createMany({
      data: [
        { client: 'ip:192.0.2.1', effect: 'deny', note: 'for ever' },
        { client: 'ip:192.0.2.2', effect: '5/m' },
        { client: 'ip:192.0.2.3', effect: 'allow', pathPattern: '^/health' },
      ],
    })
    const clients = ['ip:192.0.2.1', 'ip:192.0.2.2', 'ip:192.0.2.3', 'user:7']
    const { denied } = await writeBans(
      database.database,
      clients.map((client) => ban(client)),
      NOW_MS,
    )
    assert.deepEqual([...denied].sort(), ['ip:192.0.2.1', 'user:7'])
    const rows = await overrides.findMany({ orderBy: { id: 'asc' } })
    assert.deepEqual(
      rows.map(({ client, note }) => [client, note]),
      [
        ['ip:192.0.2.1', 'for ever'],
        ['ip:192.0.2.2', ''],
        ['ip:192.0.2.3', ''],
        ['user:7', 'banned by rule api'],
      ],
    )
  })

  test('a client of a network that is allowed is not banned, until that has expired', async (t) => {
    const { database, overrides } = await open(t, provider)
    const expiresAt = new Date(NOW_MS)
    await overrides.createMany({
      data: [
        { client: 'ip:192.0.2.0/24', effect: 'allow' },
        { client: 'ip:2001:db8::/32', effect: 'allow', pathPattern: '^/health' },
      ],
    })
    await database.database.execute(
      `INSERT INTO ${database.database.dialect.table('rate_limit_override')} (client, effect, expires_at)
       VALUES ('ip:198.51.100.0/24', 'allow', ${database.database.dialect.fromMs(String(expiresAt.getTime()))})`,
    )
    const clients = ['ip:192.0.2.7', 'ip:2001:db8:1:2::/64', 'ip:198.51.100.7', 'ip:192.0.3.7', 'user:192']
    const { denied } = await writeBans(
      database.database,
      clients.map((client) => ban(client)),
      NOW_MS,
    )
    assert.deepEqual([...denied].sort(), ['ip:192.0.3.7', 'ip:198.51.100.7', 'user:192'])
  })

  test('bans that expired long ago are deleted without a trace, a batch at a time, and nothing else is', async (t) => {
    const { database, overrides } = await open(t, provider)
    const old = Array.from({ length: 5 }, (_, place) => ban(`ip:192.0.2.${place}`, NOW_MS + MINUTE_MS))
    await writeBans(database.database, old, NOW_MS)
    await writeBans(database.database, [ban('user:7', NOW_MS + HOUR_MS)], NOW_MS)
    const expiresAt = new Date(NOW_MS + MINUTE_MS)
    await overrides.create({ data: { client: 'user:8', effect: 'deny', note: 'by hand', expiresAt } })
    await overrides.create({ data: { client: 'user:9', effect: 'deny' } })
    const changes = await database.client.rateLimitChange.count()
    const cutoffMs = NOW_MS + MINUTE_MS + 1
    const deletions = [3, 3, 3].map((size) => () => deleteExpiredBans(database.database, cutoffMs, size))
    const deleted: number[] = []
    for (const deletion of deletions) deleted.push(await deletion())
    assert.deepEqual(deleted, [3, 2, 0])
    assert.deepEqual(
      (await overrides.findMany({ orderBy: { client: 'asc' } })).map(({ client }) => client),
      ['user:7', 'user:8', 'user:9'],
    )
    assert.equal(await database.client.rateLimitChange.count(), changes)
    await overrides.deleteMany({ where: { client: 'user:7' } })
    assert.equal(await database.client.rateLimitChange.count(), changes + 1, 'what an operator deletes is recorded')
  })

  test('a ban that a clock far ahead wrote denies nobody and is replaced, and one of a clock a little ahead stays', async (t) => {
    const { database, overrides } = await open(t, provider)
    const write = async (client: string, aheadMs: number, forMs: number) => {
      const momentMs = NOW_MS + aheadMs
      return (await writeBans(database.database, [ban(client, momentMs + forMs)], momentMs)).denied.has(client)
    }
    // A ban is believed an hour ahead, or its own length.
    assert.ok(await write('user:1', 30 * DAY_MS, 2 * HOUR_MS))
    assert.ok(await write('user:2', HOUR_MS, MINUTE_MS))
    assert.ok(await write('user:3', HOUR_MS + 1, MINUTE_MS))
    assert.ok(await write('user:4', DAY_MS, DAY_MS))
    for (const client of ['user:1', 'user:2', 'user:3', 'user:4']) assert.ok(await write(client, 0, MINUTE_MS))
    const rows = await overrides.findMany({ orderBy: { client: 'asc' } })
    assert.deepEqual(
      rows.map(({ expiresAt }) => Number(expiresAt) - NOW_MS),
      [MINUTE_MS, HOUR_MS + MINUTE_MS, MINUTE_MS, 2 * DAY_MS],
    )
  })

  test('processes that delete at the same time delete each row once', async (t) => {
    const { database, overrides } = await open(t, provider)
    const old = Array.from({ length: 90 }, (_, place) => ban(`ip:192.0.2.${place}`, NOW_MS + MINUTE_MS))
    await writeBans(database.database, old, NOW_MS)
    const deleteAll = () => deleteExpiredBans(database.database, NOW_MS + HOUR_MS, 100)
    const deleted = await Promise.all([deleteAll(), deleteAll(), deleteAll()])
    assert.equal(
      deleted.reduce((sum, count) => sum + count),
      90,
    )
    assert.equal(await overrides.count(), 0)
  })
})

async function open(t: TestContext, provider: Provider) {
  const database = await openDatabase(t, provider, fakeClock())
  return { database, overrides: database.client.rateLimitOverride }
}

function ban(client: string, expiresAtMs = NOW_MS + 2 * HOUR_MS): NewBan {
  return { ruleName: 'api', client, clear: client, expiresAtMs }
}
