/** An operator reads the log of an outage at three in the morning: one stack, and what each part makes of it in a line. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, type TestContext, test } from 'node:test'
import { LogController } from 'fastify'
import { dashboardPlugin, staffAccounts } from '../../src/dashboard.js'
import { captureLog, type LogLine, okRoutes, openDatabase, startApp } from '../support/build-app.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { POSTGRES_URL } from '../support/postgresql-schemas.js'
import { ratelimit } from '../support/scripts.js'
import { ACCOUNTS, DASHBOARD, PASSWORD, SECRET } from '../support/staff-app.js'
import { closedPort, startProxyBefore } from '../support/tcp-proxy.js'

const RULES = 'Rate limit rules and overrides cannot be read: the last good ones stay in force'
const STORE = 'Rate limit store failed: onStoreError decides until it answers again (tried once a second)'
const EVENTS = 'Rate limit events cannot be written, and are kept for now'
const LOST = 'Rate limit events are being lost'

/** A server that uses the database for all that it can be used for. */
async function start(t: TestContext, database: string, schema: string) {
  const staff = staffAccounts({ accounts: ACCOUNTS, sessionSecret: SECRET })
  const { stream, log: lines } = captureLog()
  const started = await startApp(t, {
    database: null,
    fastify: {
      logger: { level: 'info', stream },
      logController: new LogController({ disableRequestLogging: true }),
    },
    plugin: {
      database,
      schema,
      logEvents: true,
      useDynamicRules: true,
      schedule: { cleanup: '* * * * *' },
      middleware: { backend: 'database', defaultRate: '100/m', ceiling: '1000/m' },
    },
    routes: async (app) => {
      okRoutes(app)
      await app.register(dashboardPlugin, { prefix: '/ops', staff })
    },
  })
  const { statuses, request, clock } = started
  return {
    ...started,
    lines,
    /** Clients and staff go on asking for two minutes. */
    async use() {
      for (let round = 0; round < 4; round++) {
        await statuses(3, '/x')
        await request(`${DASHBOARD}sign-in`, {
          method: 'POST',
          body: new URLSearchParams({ account: 'alice', password: PASSWORD }).toString(),
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
        })
        await started.app.smartRateLimit.events.flush()
        clock.advance(30_000)
      }
    },
  }
}

function withStack(lines: readonly LogLine[]): string[] {
  return lines.filter(({ err }) => err !== undefined).map(({ msg }) => msg)
}

/** What went wrong, in the order of names: parts that run beside each other notice it in any order. */
function complaints(lines: readonly LogLine[]): string[] {
  return lines.flatMap(({ level, msg }) => (level > 30 ? [msg] : [])).sort()
}

describe('on PostgreSQL', { skip: postgresqlMissing }, () => {
  test('a database that cannot be reached at start has one stack, and each consequence a line', long(), async (t) => {
    const port = await closedPort()
    const { use, app, lines } = await start(t, `postgresql://postgres@127.0.0.1:${port}/test`, 'nowhere')
    await use()
    await app.close()

    const cause = `connect ECONNREFUSED 127.0.0.1:${port}`
    const first = `Rate limit database: ${cause}: onStoreError decides until it can be reached`
    assert.deepEqual(withStack(lines), [first])
    assert.deepEqual(complaints(lines), [LOST, EVENTS, RULES, STORE, first].sort())
    for (const { err, cause: said } of lines) assert.equal(err?.message ?? said ?? cause, cause)
  })

  test('missing tables have one stack, and every line names the remedy', long(), async (t) => {
    const schema = `test_${randomBytes(8).toString('hex')}`
    const { use, app, lines } = await start(t, POSTGRES_URL, schema)
    await use()
    await app.close()

    assert.equal(withStack(lines).length, 1)
    const [first = ''] = withStack(lines)
    assert.match(first, /^Rate limit database: A table is missing .* "ratelimit migrate --schema test_\w+"$/)
    assert.deepEqual(complaints(lines), [LOST, EVENTS, RULES, STORE, first].sort())
    for (const { level, err, cause } of lines) {
      if (level > 30) assert.match(err?.message ?? cause ?? '', /ratelimit migrate/)
    }
  })

  test('a database that goes away under a running server has one stack for each outage', long(), async (t) => {
    const database = await openDatabase(t, 'postgresql')
    const { proxy, url } = await startProxyBefore(t, database.url, 5432)
    const { use, lines, statuses, clock } = await start(t, url, database.schema)
    await statuses(2, '/x')
    for (let outage = 1; outage <= 2; outage++) {
      const before = lines.length
      await proxy.switchOff()
      await use()
      await proxy.switchOn()
      assert.equal(withStack(lines.slice(before)).length, 1)
      const said = complaints(lines.slice(before))
      assert.ok(said.includes(STORE))
      // Whoever met it first has the stack, a warning of the rollups among them.
      assert.ok(new Set(said).size === said.length && said.length <= 4, said.join('\n'))
      await eventually('it is over', async () => {
        clock.advance(2_000)
        await statuses(1, '/x')
        const after = lines.slice(before).map(({ msg }) => msg)
        return (
          after.some((msg) => /store answers again/.test(msg)) && after.some((msg) => /can be read again/.test(msg))
        )
      })
      // Soon after the first, the second one would be its relapse.
      clock.advance(60_000)
    }
  })
})

test('commands say in one line what is wrong with the database, and exit with 1', async () => {
  const RATELIMIT_DATABASE_URL = `postgresql://postgres@127.0.0.1:${await closedPort()}/test`
  for (const args of [
    ['alerts', '--threshold', '3'],
    ['explain', '--path', '/x'],
    ['migrate'],
    ['override', 'add', 'ip:203.0.113.7', 'deny'],
    ['preview', '--name', 'api', '--rate', '1/m'],
    ['reload-rules'],
    ['rules', 'export'],
    ['tail'],
    ['top'],
    ['verify-rollups'],
  ]) {
    const { status, stdout, stderr } = await ratelimit(args, { env: { RATELIMIT_DATABASE_URL } })
    assert.deepEqual([status, stdout], [1, ''])
    assert.match(
      stderr,
      /^ratelimit [a-z -]+: (?:connect ECONNREFUSED|Can't reach database server at) 127\.0\.0\.1\S*\n$/,
    )
  }
})
