import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { atEnd } from './at-end.js'
import { openDatabase } from './build-app.js'
import { startTcpProxy } from './tcp-proxy.js'

/** The connections that a server keeps for the limits, as the documentation says. */
export const CONNECTIONS_PER_SERVER = 6

/** A new schema, reached through a proxy, by connections of a name of their own; and connections beside them. */
export async function openNamedPostgresql(t: TestContext) {
  const { url, schema } = await openDatabase(t, 'postgresql')
  // Two, since one that is in a transaction sees the list of sessions as it was.
  const [direct, locker] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })]
  await Promise.all([direct.connect(), locker.connect()])
  atEnd(t, () => Promise.all([direct.end(), locker.end()]))
  const address = new URL(url)
  const proxy = await startTcpProxy({ host: address.hostname, port: Number(address.port || 5432) })
  atEnd(t, () => proxy.switchOff())
  const name = `faults-${randomBytes(8).toString('hex')}`
  address.hostname = '127.0.0.1'
  address.port = String(proxy.port)
  address.searchParams.set('application_name', name)
  const sql = (text: string, values: string[] = []) => direct.query(text, values)
  /** Keeps everybody else from a table until the answer is called. */
  async function lock(table: string): Promise<() => Promise<unknown>> {
    await locker.query('BEGIN')
    await locker.query(`LOCK TABLE ${schema}.${table} IN ACCESS EXCLUSIVE MODE`)
    return () => locker.query('COMMIT')
  }
  return { lock, url: address.href, direct: url, schema, name, proxy, sql }
}
