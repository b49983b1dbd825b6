/**
 * Schemas of PostgreSQL for tests. Creating and dropping one takes half a second of a busy server, emptying one takes
 * some milliseconds: a process uses each again, as long as it is what the migrations made.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { errorMessage } from '../../src/ground/errors.js'
import { migrate } from '../../src/plugin/client/client.js'

export const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'

/** A table with more rows is not worth emptying: what is deleted stays in its file. */
const MAX_DELETED = 2_000

export interface TestSchema {
  readonly name: string
  /** Makes it again what the migrations have made, or fails. */
  readonly emptying: string
}

const idle: TestSchema[] = []

/** The database beside the one of the tests: a log there has the schema of the same name. */
export const OTHER_POSTGRES_URL = POSTGRES_URL.replace(/(\/[^/?]+)(\?|$)/, '$1_log$2')

/** Returns an empty schema with all tables: one that was released, or a new one. */
export async function takeSchema(): Promise<TestSchema> {
  const released = idle.pop()
  if (released !== undefined) return released
  const name = `test_${randomBytes(8).toString('hex')}`
  await migrate({ database: POSTGRES_URL, schema: name })
  return { name, emptying: await onPostgresql((client) => emptyingSql(client, name)) }
}

/** Creates a schema of this name, with all tables, in the database of logs. Returns what removes it. */
export async function createLogSchema(name: string): Promise<() => Promise<unknown>> {
  const { pathname } = new URL(OTHER_POSTGRES_URL)
  // Another process may create it at the same time.
  await onPostgresql((client) => client.query(`CREATE DATABASE ${pathname.slice(1)}`)).catch(() => undefined)
  await migrate({ database: OTHER_POSTGRES_URL, schema: name })
  return async () => {
    const client = new pg.Client({ connectionString: OTHER_POSTGRES_URL })
    await client.connect()
    await client.query(`DROP SCHEMA ${name} CASCADE`).finally(() => client.end())
  }
}

/** Keeps a schema for the next test, or drops it where a test has changed more than rows, or has written many. */
export async function releaseSchema(schema: TestSchema): Promise<void> {
  try {
    await onPostgresql((client) => client.query(schema.emptying))
    idle.push(schema)
  } catch {
    await drop([schema.name])
  }
}

process.on('beforeExit', () => {
  const names = idle.splice(0).map(({ name }) => name)
  if (names.length > 0) void drop(names)
})

function drop(names: readonly string[]): Promise<unknown> {
  return onPostgresql((client) => client.query(`DROP SCHEMA IF EXISTS ${names.join(', ')} CASCADE`))
}

/** Returns why no test can run on PostgreSQL, or false. */
export async function probePostgresql(): Promise<string | false> {
  const client = new pg.Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: 10_000 })
  try {
    await client.connect()
    return false
  } catch (error) {
    return `no PostgreSQL at ${POSTGRES_URL} (TEST_POSTGRES_URL): ${errorMessage(error) || 'connection refused'}`
  } finally {
    await client.end()
  }
}

/** One connection looks after schemas, since each would read the catalog anew. It keeps no process from ending. */
const pool = new pg.Pool({
  connectionString: POSTGRES_URL,
  connectionTimeoutMillis: 10_000,
  idleTimeoutMillis: 0,
  max: 1,
  allowExitOnIdle: true,
})
// A test may end all connections: the next schema has a new one.
pool.on('error', () => undefined)

async function onPostgresql<Result>(work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect()
  try {
    const result = await work(client)
    client.release()
    return result
  } catch (error) {
    client.release(true)
    throw error
  }
}

/** Returns statements that empty a schema. They divide by zero where it has another shape, or too many rows. */
async function emptyingSql(client: pg.PoolClient, name: string): Promise<string> {
  const { rows: shapes } = await client.query(shapeSql(name))
  const tables = await tablesIn(client, name)
  const its = (table: string) => `${name}."${table}"`
  const inserts: string[] = []
  for (const table of tables) {
    const { rows } = await client.query(`SELECT json_agg(t)::text AS rows FROM ${its(table)} AS t`)
    const json = rows[0]?.rows
    if (typeof json !== 'string') continue
    const row = `json_populate_recordset(NULL::${its(table)}, ${pg.escapeLiteral(json)})`
    inserts.push(`INSERT INTO ${its(table)} OVERRIDING SYSTEM VALUE SELECT * FROM ${row}`)
  }
  return [
    `SELECT 1 / (shape = '${shapes[0]?.shape}')::int FROM (${shapeSql(name)}) AS shapes`,
    // The triggers, which count what is deleted, are off. A server that a test has left behind may hold a lock.
    'BEGIN',
    'SET LOCAL session_replication_role = replica',
    "SET LOCAL lock_timeout = '1s'",
    'SET LOCAL synchronous_commit = off',
    `WITH ${tables.map((table, place) => `t${place} AS (DELETE FROM ${its(table)} RETURNING 1)`).join(', ')}
     SELECT 1 / (${tables.map((_, place) => `(SELECT COUNT(*) FROM t${place})`).join(' + ')} <= ${MAX_DELETED})::int`,
    ...inserts,
    `SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
     FROM pg_sequences WHERE schemaname = '${name}' AND last_value IS NOT NULL`,
    'COMMIT',
  ].join(';')
}

async function tablesIn(client: pg.PoolClient, name: string): Promise<string[]> {
  const { rows } = await client.query('SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename', [
    name,
  ])
  return rows.map(({ tablename }) => String(tablename))
}

/** Returns a query of a digest of the tables, columns, indexes, constraints, triggers, functions and types of a schema. */
function shapeSql(name: string): string {
  return `WITH relations AS (SELECT oid, relname, relkind, reloptions FROM pg_class WHERE relnamespace = '${name}'::regnamespace),
     parts AS (
       SELECT concat_ws(' ', relname, relkind, reloptions) AS part FROM relations
       UNION ALL SELECT concat_ws(' ', attrelid, attname, atttypid, atttypmod, attnotnull, atthasdef, attisdropped)
         FROM pg_attribute WHERE attrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', indexrelid, indisvalid, indisunique) FROM pg_index WHERE indrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', oid, conname) FROM pg_constraint WHERE connamespace = '${name}'::regnamespace
       UNION ALL SELECT concat_ws(' ', tgrelid, tgname, tgenabled, tgfoid) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', oid, proname, prosrc) FROM pg_proc WHERE pronamespace = '${name}'::regnamespace
       UNION ALL SELECT concat_ws(' ', oid, typname) FROM pg_type WHERE typnamespace = '${name}'::regnamespace
     )
     SELECT md5(string_agg(part, ',' ORDER BY part)) AS shape FROM parts`
}
