/** PostgreSQL goes away under a running server, hangs, and comes back. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { RateLimitOptions } from '../../src/index.js'
import { atEnd } from '../support/at-end.js'
import { ERROR, type LogLine, openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { startProxyBefore } from '../support/tcp-proxy.js'

const outages = (log: readonly LogLine[]) => log.filter(({ msg }) => /store failed/i.test(msg))

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test(
    'an outage is bridged in memory, logged once, and over without a restart: the old counters go on',
    long(),
    async (t) => {
      const { statuses, request, log, clock, proxy, database, goesOn } = await startBehindProxy(t, {
        middleware: { defaultRate: '100/h' },
      })
      const remaining = async () => Number((await request('/')).headers['x-ratelimit-remaining'])
      assert.deepEqual(await statuses(10, '/'), Array(10).fill(200))

      await proxy.switchOff()
      assert.deepEqual(await statuses(5, '/'), Array(5).fill(200))
      clock.advance(5_000)
      assert.deepEqual(await statuses(5, '/'), Array(5).fill(200))
      assert.equal(outages(log).length, 1)

      await proxy.switchOn()
      await eventually('the counter of the table goes on', async () => {
        clock.advance(1_000)
        return goesOn()
      })
      // Probes that were held up may still be counted, between the answer and the look at the table.
      await eventually('the answers tell what the table holds', async () => {
        const left = await remaining()
        const [counter] = await database.client.rateLimitCounter.findMany()
        return left < 90 && left === 100 - (counter?.count ?? 0)
      })
      assert.equal(outages(log).length, 1)
    },
  )

  for (const [algorithm, rate, table] of [
    ['fixed_window', '3/h', 'rate_limit_counter'],
    ['fixed_window', '3/m, 3/h', 'rate_limit_counter'],
    ['sliding_window', '3/h', 'rate_limit_sliding_window'],
    ['token_bucket', '3/h', 'rate_limit_token_bucket'],
  ] as const) {
    test(
      `while another session keeps the row of a client locked, onStoreError decides for that client alone: ${algorithm}, ${rate}`,
      long(),
      async (t) => {
        const database = await openDatabase(t, 'postgresql')
        const { statuses, log } = await startApp(t, {
          database,
          plugin: {
            onStoreError: 'deny',
            storeTimeoutMs: 1_000,
            middleware: { defaultRate: rate, algorithm },
          },
        })
        const clients = Array.from({ length: 10 }, (_, index) => `203.0.113.${index}`)
        const ask = () => Promise.all(clients.map(async (from) => (await statuses(1, '/', { from }))[0]))
        assert.deepEqual(await ask(), Array(10).fill(200))
        const session = new pg.Client(database.url)
        await session.connect()
        atEnd(t, () => session.end())
        await session.query('BEGIN')
        const locked = await session.query(
          `SELECT key FROM "${database.schema}".${table} WHERE key LIKE '%203.0.113.0' FOR UPDATE`,
        )
        assert.equal(locked.rowCount, 1)

        const rounds: unknown[][] = []
        for (let round = 0; round < 4; round++) rounds.push(await ask())
        for (const index of clients.keys()) {
          const answers = rounds.map((round) => round[index])
          assert.deepEqual(answers, index === 0 ? [503, 503, 503, 503] : [200, 200, 429, 429])
        }
        assert.equal(outages(log).length, 1)
        assert.match(outages(log)[0]?.msg ?? '', /^Rate limit store failed at a locked row \(\w{8}\): onStoreError/)

        await session.query('COMMIT')
        const from = '203.0.113.0'
        await eventually('its client is counted again', async () => {
          return (await statuses(1, '/', { from }))[0] !== 503
        })
        assert.deepEqual(await statuses(2, '/', { from }), [200, 429])
      },
    )
  }

  test(
    'a database that hangs holds up a request for storeTimeoutMs at most, and later ones not at all',
    long(),
    async (t) => {
      const { request, statuses, proxy, log } = await startBehindProxy(t, {
        storeTimeoutMs: 150,
        useDynamicRules: true,
        logEvents: true,
        middleware: { defaultRate: '3/m' },
      })
      await request('/')
      proxy.hang()

      const startedMs = performance.now()
      assert.equal((await request('/')).status, 200)
      const firstMs = performance.now() - startedMs
      assert.deepEqual(await statuses(3, '/'), [200, 200, 429])
      const allMs = performance.now() - startedMs

      assert.ok(firstMs >= 100 && firstMs < 1_500, `${firstMs} ms`)
      assert.ok(allMs - firstMs < 500, `${allMs - firstMs} ms`)
      assert.equal(outages(log).length, 1)
      await proxy.switchOff()
    },
  )

  test(
    'connections that went dead are given up: the counters go on over new ones, without a restart',
    long(),
    async (t) => {
      const { request, proxy, clock, goesOn } = await startBehindProxy(t, {
        storeTimeoutMs: 100,
        middleware: { defaultRate: '100/h' },
      })
      const remaining = async () => Number((await request('/')).headers['x-ratelimit-remaining'])
      for (const left of [99, 98, 97]) assert.equal(await remaining(), left)

      proxy.hang()
      // In memory a client starts with its whole limit.
      assert.equal(await remaining(), 99)
      proxy.heal()
      try {
        const recovered = () => {
          clock.advance(1_000)
          return goesOn()
        }
        await eventually('the counter of the table goes on', recovered, 12_000)
      } finally {
        await proxy.switchOff()
      }
    },
  )

  test('closing the app does not wait for a database that hangs', long(), async (t) => {
    const { app, request, proxy } = await startBehindProxy(t, { storeTimeoutMs: 50 })
    await request('/')
    proxy.hang()
    await request('/')

    const closed = app.close().then(() => 'closed')
    const outcome = await Promise.race([closed, delay(7_000, 'still waiting', { ref: false })])

    await proxy.switchOff()
    assert.equal(outcome, 'closed')
  })

  test('rules stay in force during an outage, and an edit made meanwhile holds soon after it', async (t) => {
    const { request, proxy, clock, database, log } = await startBehindProxy(t, { useDynamicRules: true })
    const limitOf = async (path: string) => (await request(path)).headers['x-ratelimit-limit']
    await database.client.rateLimitRule.create({ data: { name: 'api', pathPattern: '^/api/', rate: '7/h' } })
    clock.advance(2_000)
    assert.equal(await limitOf('/api/x'), '7')

    await proxy.switchOff()
    clock.advance(61_000)
    assert.equal(await limitOf('/api/x'), '7')
    await database.client.rateLimitRule.update({ where: { name: 'api' }, data: { rate: '8/h' } })
    await proxy.switchOn()

    await eventually('the edit is seen', async () => {
      clock.advance(1_000)
      return (await limitOf('/api/x')) === '8'
    })
    assert.equal(log.filter(({ msg }) => /rules and overrides cannot be read/i.test(msg)).length, 1)
  })

  test(
    'a schema that was never migrated is reported with "ratelimit migrate", and requests are limited in memory',
    long(),
    async (t) => {
      const database = await openDatabase(t, 'postgresql')
      const { statuses, log, app } = await startApp(t, {
        database: null,
        plugin: {
          database: database.url,
          schema: `test_${randomBytes(8).toString('hex')}`,
          logEvents: true,
          useDynamicRules: true,
          middleware: { backend: 'database', defaultRate: '1/m' },
        },
      })

      assert.deepEqual(await statuses(3, '/'), [200, 429, 429])
      await app.smartRateLimit.events.flush()
      const errors = log.filter(({ level }) => level >= ERROR)
      assert.ok(errors.length >= 1 && errors.length <= 4)
      for (const { err, cause } of errors) assert.match(err?.message ?? cause ?? '', /ratelimit migrate/)
    },
  )
})

describe('on PostgreSQL, at start', { skip: postgresqlMissing }, () => {
  test('a migration that was not applied is named, in one line with the remedy, and the app serves all the same', async (t) => {
    const database = await openDatabase(t, 'postgresql')
    const ledger = database.database.dialect.table('_prisma_migrations')
    const [newest] = await database.database.query<{ name: string }>(
      `SELECT migration_name AS name FROM ${ledger} ORDER BY migration_name DESC LIMIT 1`,
    )
    assert.ok(newest !== undefined)
    await database.database.execute(`UPDATE ${ledger} SET finished_at = NULL WHERE migration_name = $1`, [newest.name])

    const { statuses, log } = await startApp(t, { database, plugin: { middleware: { defaultRate: '1/m' } } })
    await eventually('the line is there', () => log.length > 0)

    assert.deepEqual(await statuses(2, '/'), [200, 429])
    assert.equal(log.length, 1)
    assert.match(
      log[0]?.msg ?? '',
      new RegExp(`^Rate limit database: .* lacks ${newest.name}: .*"ratelimit migrate --schema \\w+"$`),
    )
  })

  test(
    'one that is away at start, and lacks its tables when it is reached, is logged once with the remedy',
    long(),
    async (t) => {
      const database = await openDatabase(t, 'postgresql')
      const { proxy, url } = await startProxyBefore(t, database.url, 5432)
      await proxy.switchOff()
      const schema = `test_${randomBytes(8).toString('hex')}`
      const plugin: RateLimitOptions = { database: url, schema, middleware: { backend: 'database' } }
      const { statuses, log, clock } = await startApp(t, { database: null, plugin })
      const complaints = () => log.filter(({ msg }) => msg.includes('ratelimit migrate'))
      assert.deepEqual(await statuses(2, '/'), [200, 200])
      assert.deepEqual(complaints(), [])

      await proxy.switchOn()
      const asksAgain = async () => {
        clock.advance(1_000)
        return (await statuses(1, '/'))[0] === 200 && complaints().length > 0
      }
      await eventually('the tables are missed', asksAgain)
      for (let round = 0; round < 5; round++) await asksAgain()
      assert.equal(complaints().length, 1)
    },
  )

  test('a database that a later version has migrated is not reported', async (t) => {
    const database = await openDatabase(t, 'postgresql')
    const ledger = database.database.dialect.table('_prisma_migrations')
    await database.database.execute(
      `INSERT INTO ${ledger} (id, checksum, migration_name, finished_at) VALUES ('later', 'x', '29990101000000_later', now())`,
    )
    await database.database.requireMigrations()

    await database.database.execute(`DROP TABLE ${ledger}`)
    await assert.rejects(database.database.requireMigrations(), /ratelimit migrate/)
  })
})

async function startBehindProxy(t: TestContext, plugin: RateLimitOptions) {
  const database = await openDatabase(t, 'postgresql')
  const { proxy, url } = await startProxyBefore(t, database.url, 5432)
  const started = await startApp(t, {
    database: null,
    plugin: {
      database: url,
      schema: database.schema,
      ...plugin,
      middleware: { backend: 'database', ...plugin.middleware },
    },
  })

  /** Whether a request is counted in the table, beside which no other request may be under way. */
  async function goesOn(): Promise<boolean> {
    const count = async () => (await database.client.rateLimitCounter.findMany())[0]?.count
    const before = await count()
    await started.request('/')
    return before !== undefined && (await count()) === before + 1
  }
  return { ...started, database, proxy, goesOn }
}
