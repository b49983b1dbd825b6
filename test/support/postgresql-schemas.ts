/**
 * Schemas of PostgreSQL for tests. Creating and dropping one takes half a second of a busy server, emptying one takes
 * some milliseconds: a process uses each again, as long as it is what the migrations made.
 */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { errorMessage } from '../../src/errors.js'

export const POSTGRES_URL = process.env.TEST_POSTGRES_URL ?? 'postgresql://postgres@127.0.0.1:5432/test'

/** A table with more rows is not worth emptying: what is deleted stays in its file. */
const MAX_DELETED = 2_000

export interface TestSchema {
  readonly name: string
  /** What the migrations made; undefined until they have. */
  made: Made | undefined
}

interface Made {
  readonly shape: string
  readonly tables: readonly string[]
  /** The rows that the migrations wrote, as JSON, by table. */
  readonly rows: ReadonlyMap<string, string>
}

const idle: TestSchema[] = []

/** Returns an empty schema: one that was released, or a name for a new one, which is to be migrated. */
export function takeSchema(): TestSchema {
  return idle.pop() ?? { name: `test_${randomBytes(8).toString('hex')}`, made: undefined }
}

/** Notes what the migrations have made of a new schema. */
export async function noteMigrated(schema: TestSchema): Promise<void> {
  schema.made ??= await onPostgresql(async (client) => {
    const tables = await tablesIn(client, schema.name)
    const rows = new Map<string, string>()
    for (const table of tables) {
      const { rows: found } = await client.query(`SELECT json_agg(t)::text AS rows FROM ${schema.name}."${table}" AS t`)
      const [first] = found
      if (typeof first?.rows === 'string') rows.set(table, first.rows)
    }
    return { shape: await shapeOf(client, schema.name), tables, rows }
  })
}

/** Keeps a schema for the next test, or drops it where a test has changed more than rows, or has written many. */
export async function releaseSchema(schema: TestSchema): Promise<void> {
  const isEmptied = schema.made !== undefined && (await empty(schema.name, schema.made).catch(() => false))
  if (isEmptied) idle.push(schema)
  else await drop([schema.name])
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
  const client = new pg.Client({ connectionString: POSTGRES_URL, connectionTimeoutMillis: 2_000 })
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

/** @returns false where the schema is not what the migrations made */
function empty(name: string, { shape, tables, rows }: Made): Promise<boolean> {
  return onPostgresql(async (client) => {
    if ((await shapeOf(client, name)) !== shape) return false
    // Without triggers, which count what is deleted. A server that a test has left behind may hold a lock.
    await client.query(
      "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL lock_timeout = '1s'; SET LOCAL synchronous_commit = off",
    )
    const its = (table: string) => `${name}."${table}"`
    const { rows: deleted } = await client.query(
      `WITH ${tables.map((table, place) => `t${place} AS (DELETE FROM ${its(table)} RETURNING 1)`).join(', ')}
       SELECT ${tables.map((_, place) => `(SELECT COUNT(*) FROM t${place})`).join(' + ')} AS count`,
    )
    if (Number(deleted[0]?.count) > MAX_DELETED) throw new Error('too many rows')
    for (const [table, json] of rows) {
      const to = its(table)
      await client.query(
        `INSERT INTO ${to} OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::${to}, $1)`,
        [json],
      )
    }
    await client.query(
      `SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false)
       FROM pg_sequences WHERE schemaname = $1 AND last_value IS NOT NULL`,
      [name],
    )
    await client.query('COMMIT')
    return true
  })
}

async function tablesIn(client: pg.PoolClient, name: string): Promise<string[]> {
  const { rows } = await client.query('SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename', [
    name,
  ])
  return rows.map(({ tablename }) => String(tablename))
}

/** Returns a digest of the tables, columns, indexes, constraints, triggers, functions and types of a schema. */
async function shapeOf(client: pg.PoolClient, name: string): Promise<string> {
  const { rows } = await client.query(
    `WITH relations AS (SELECT oid, relname, relkind, reloptions FROM pg_class WHERE relnamespace = $1::regnamespace),
     parts AS (
       SELECT concat_ws(' ', relname, relkind, reloptions) AS part FROM relations
       UNION ALL SELECT concat_ws(' ', attrelid, attname, atttypid, atttypmod, attnotnull, atthasdef, attisdropped)
         FROM pg_attribute WHERE attrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', indexrelid, indisvalid, indisunique) FROM pg_index WHERE indrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', oid, conname) FROM pg_constraint WHERE connamespace = $1::regnamespace
       UNION ALL SELECT concat_ws(' ', tgrelid, tgname, tgenabled, tgfoid) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM relations)
       UNION ALL SELECT concat_ws(' ', oid, proname, prosrc) FROM pg_proc WHERE pronamespace = $1::regnamespace
       UNION ALL SELECT concat_ws(' ', oid, typname) FROM pg_type WHERE typnamespace = $1::regnamespace
     )
     SELECT md5(string_agg(part, ',' ORDER BY part)) AS shape FROM parts`,
    [name],
  )
  return String(rows[0]?.shape)
}
