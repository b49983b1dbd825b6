/** Hundreds of requests are under way when the database breaks, and when it comes back. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { migrate } from '../../src/index.js'
import { postgresqlMissing } from '../support/databases.js'
import { eventually } from '../support/eventually.js'
import { long } from '../support/long.js'
import { CONNECTIONS_PER_SERVER, openNamedPostgresql } from '../support/named-postgresql.js'
import { ownPostgresqlMissing, startOwnPostgresql } from '../support/own-postgresql.js'
import { proveFault } from '../support/three-apps.js'

describe('PostgreSQL in mid-load', { skip: postgresqlMissing }, () => {
  test('refuses connections and breaks those there are', long(), async (t) => {
    const { proxy, fault, connectionsAreBack } = await openBehindProxy(t)

    const apps = await proveFault(t, { ...fault, begin: proxy.switchOff, end: proxy.switchOn })

    await connectionsAreBack(apps)
  })

  test('ends every connection, as an administrator may, and takes new ones', long(), async (t) => {
    const { fault, sql, connectionsAreBack } = await openBehindProxy(t)

    const apps = await proveFault(t, {
      ...fault,
      begin: () =>
        sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1', [fault.name]),
    })

    await connectionsAreBack(apps)
  })

  test('takes ten seconds for every answer', long(), async (t) => {
    const { proxy, fault, connectionsAreBack } = await openBehindProxy(t)

    const apps = await proveFault(t, {
      ...fault,
      begin: () => proxy.slowDown(10_000),
      end: () => proxy.slowDown(0),
    })

    await connectionsAreBack(apps)
  })

  test('holds a lock on the table, for another session', long(), async (t) => {
    const { fault, lock, connectionsAreBack } = await openBehindProxy(t)
    let unlock: () => unknown = () => undefined

    const apps = await proveFault(t, {
      ...fault,
      async begin() {
        unlock = await lock('rate_limit_counter')
      },
      end: () => unlock(),
    })

    await connectionsAreBack(apps)
  })

  test('loses the table, which is made again', long(), async (t) => {
    const { fault, sql, connectionsAreBack } = await openBehindProxy(t)
    const { schema } = fault

    const apps = await proveFault(t, {
      ...fault,
      async begin() {
        await sql(`CREATE TABLE ${schema}.kept (LIKE ${schema}.rate_limit_counter INCLUDING ALL)`)
        await sql(`INSERT INTO ${schema}.kept SELECT * FROM ${schema}.rate_limit_counter`)
        await sql(`DROP TABLE ${schema}.rate_limit_counter`)
      },
      end: () => sql(`ALTER TABLE ${schema}.kept RENAME TO rate_limit_counter`),
    })

    await connectionsAreBack(apps)
  })
})

describe('a PostgreSQL server in mid-load', { skip: ownPostgresqlMissing }, () => {
  for (const [what, signal] of [
    ['crashes', 'SIGKILL'],
    ['is restarted', 'SIGINT'],
  ] as const) {
    test(`${what}, and comes back`, long(), async (t) => {
      const server = await startOwnPostgresql(t)
      await migrate({ database: server.url })

      await proveFault(t, { url: server.url, begin: () => server.stop(signal), end: () => server.start() })
    })
  }
})

async function openBehindProxy(t: TestContext) {
  const { url, schema, name, proxy, sql, lock } = await openNamedPostgresql(t)

  async function connections(): Promise<number> {
    const { rows } = await sql('SELECT pid FROM pg_stat_activity WHERE application_name = $1', [name])
    return rows.length
  }
  /** No server of the fault keeps more connections than it should, and none when it is closed. */
  async function connectionsAreBack(apps: Awaited<ReturnType<typeof proveFault>>): Promise<void> {
    const open = await connections()
    assert.ok(open > 0 && open <= apps.length * CONNECTIONS_PER_SERVER, `${open} connections`)
    await Promise.all(apps.map(({ app }) => app.close()))
    await eventually('no connection is left', async () => (await connections()) === 0)
  }
  return { proxy, sql, lock, connectionsAreBack, fault: { url, schema, name } }
}
