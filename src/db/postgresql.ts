import pg from 'pg'
import { InvalidSettingError } from '../errors.js'
import { type Dialect, type Query, type SqlConnection, type SqlValue, takeSteps } from './dialect.js'
import { cancelStatement, isGivenUp } from './postgresql-cancel.js'

/** Prisma's own migration lock, so that `prisma migrate deploy` and `migrate()` keep out of each other's way. */
const MIGRATION_LOCK = 72_707_369
/** Two statements of the limiter, one of the event log, one report; and one for what is rare: polls, rules, staff. */
const POOL_SIZE = 5
export const CONNECT_TIMEOUT_MS = 5_000
/** A statement of the limiter or the event log that takes longer is on a connection that went dead: it is given up. */
const STATEMENT_TIMEOUT_MS = 5_000
/** The same for a statement of a report, which may have a long log to read. */
const REPORT_TIMEOUT_MS = 60_000
/** How long a transaction of somebody else that wrote to a table is waited for before that table cannot be locked. */
const LOCK_TIMEOUT_MS = 10_000
/** Compiling a query, or starting workers for it, takes longer than most queries of a report. */
const BEGIN_REPORT =
  'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL jit = off; SET LOCAL parallel_setup_cost = 50000'
/** What a lock was waited for has to be seen, whatever isolation the role has by default. */
const BEGIN_CURRENT = 'BEGIN ISOLATION LEVEL READ COMMITTED'
/** How long inserts may be held up to find out which ids are settled. */
const SETTLE_TIMEOUT_MS = 20
const UNDEFINED_TABLE = '42P01'
const INVALID_SCHEMA = '3F000'

export function postgresqlDialect(schema: string): Dialect {
  const table = (name: string) => `${pg.escapeIdentifier(schema)}.${pg.escapeIdentifier(name)}`
  return {
    provider: 'postgresql',
    writeConcurrency: 2,
    // The more of them, the less the statement itself costs each.
    rowsPerInsert: 1_000,
    table,
    // Not in `numeric`, which takes longer than the rest of the statement.
    fromMs: (expression) => `to_timestamp((${expression})::float8 / 1000)`,
    toMs: (expression) => `(extract(epoch FROM ${expression}) * 1000)::bigint`,
    minuteOf: (expression) => `${table('rate_limit_minute')}(${expression})`,
    eventsPerFold: 10_000,
    // The log first, which TRUNCATE locks before it empties the rollups.
    lockRollups: [
      `LOCK TABLE ${table('rate_limit_event')} IN ACCESS SHARE MODE`,
      `SELECT event_id FROM ${table('rate_limit_watermark')} FOR UPDATE`,
    ],
    // Whoever inserts shares this lock. A wait for it would queue all further inserts behind a long transaction.
    settleIds: [
      `SET LOCAL lock_timeout = ${SETTLE_TIMEOUT_MS}`,
      `SELECT pg_advisory_xact_lock((72707370::bigint << 32) | ${pg.escapeLiteral(table('rate_limit_event'))}::regclass::oid::bigint)`,
      `SELECT setval(${pg.escapeLiteral(table('rate_limit_watermark_ahead'))}, GREATEST(last_value, (SELECT MAX(id) FROM ${table('rate_limit_event')})))
       FROM ${table('rate_limit_watermark_ahead')}`,
    ],
    lastSettledId: `(SELECT last_value FROM ${table('rate_limit_watermark_ahead')})`,
    whole: (expression) => `(${expression})::bigint`,
    bytewise: (expression) => `${expression} COLLATE "C"`,
    oneOf: (expression, placeholder, type) =>
      `${expression} = ANY (ARRAY(SELECT jsonb_array_elements_text(${placeholder}::jsonb)::${type}))`,
    // Not `json`, which reads an element's text again for each of its fields.
    jsonRows: () => 'jsonb_array_elements($1::jsonb) AS element(value)',
    jsonField: (index, type) => `(element.value ->> ${index})::${type}`,
    // In the statement itself, since a setting of the session would, behind a pooler, meet other people's transactions.
    lazily: "(SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL",
    rowsAsJson: (columns) => `json_agg(json_build_array(${columns}))::text`,
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    createLedger: `CREATE TABLE IF NOT EXISTS "_prisma_migrations" (
    id                      VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum                VARCHAR(64) NOT NULL,
    finished_at             TIMESTAMPTZ,
    migration_name          VARCHAR(255) NOT NULL,
    logs                    TEXT,
    rolled_back_at          TIMESTAMPTZ,
    started_at              TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count     INTEGER NOT NULL DEFAULT 0
)`,
    isMissingTable: (error) =>
      error instanceof pg.DatabaseError && (error.code === UNDEFINED_TABLE || error.code === INVALID_SCHEMA),
  }
}

export function createPostgresqlConnection(url: string, schema: string): SqlConnection {
  const pool = new pg.Pool({
    connectionString: url,
    max: POOL_SIZE,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    // A pool that is idle keeps no process alive.
    allowExitOnIdle: true,
    application_name: 'fastify-smart-ratelimit',
    types: { getTypeParser: typeParser },
    // Each connection is asked: the server may have been away when the process started.
    onConnect: checkEncoding,
  })
  // A connection that breaks while it is idle is replaced by the next query.
  pool.on('error', () => undefined)
  // One that breaks while it is used tells so to whoever uses it; without a listener it would end the process besides.
  pool.on('connect', (client) => client.on('error', () => undefined))
  // Statements are named by their number, so that the server plans each of them once per connection.
  const names = new Map<string, string>()

  function prepared(sql: string, parameters: readonly SqlValue[], timeoutMs = STATEMENT_TIMEOUT_MS) {
    let name = names.get(sql)
    if (name === undefined) {
      name = `fsr${names.size}`
      names.set(sql, name)
    }
    return { name, text: sql, values: [...parameters], query_timeout: timeoutMs }
  }

  return {
    async query<Row>(sql: string, parameters: readonly SqlValue[] = []) {
      return rows<Row>(await withConnection(pool, (client) => client.query(prepared(sql, parameters))))
    },

    async execute(sql, parameters = []) {
      const result = await withConnection(pool, (client) => client.query(prepared(sql, parameters)))
      return result.rowCount ?? 0
    },

    transaction(steps) {
      return inTransaction(pool, BEGIN_CURRENT, async (client) => {
        const query = queryOf(client, REPORT_TIMEOUT_MS)
        for (const { sql, parameters } of steps) await query(sql, parameters)
      })
    },

    snapshot(read) {
      return inTransaction(pool, BEGIN_REPORT, (client) =>
        read(async <Row>(sql: string, parameters: readonly SqlValue[] = []) =>
          rows<Row>(await client.query(prepared(sql, parameters, REPORT_TIMEOUT_MS))),
        ),
      )
    },

    locked(tables, work) {
      return inTransaction(pool, BEGIN_CURRENT, async (client) => {
        const query = queryOf(client, REPORT_TIMEOUT_MS)
        await query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await query(`LOCK TABLE ${tables.join(', ')} IN SHARE ROW EXCLUSIVE MODE`)
        return takeSteps(query, work())
      })
    },

    exclusively(migrate) {
      return inTransaction(pool, BEGIN_CURRENT, async (client) => {
        await client.query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
        // Not "IF NOT EXISTS", which asks for the right to create schemas even where there is nothing to create.
        const { rowCount } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
        if (rowCount === 0) await client.query(`CREATE SCHEMA ${pg.escapeIdentifier(schema)}`)
        await client.query(`SET LOCAL search_path TO ${pg.escapeIdentifier(schema)}`)
        return migrate(queryOf(client), async (sql) => {
          await client.query(sql)
        })
      })
    },

    async close() {
      if (!pool.ended) await pool.end()
    },
  }
}

/**
 * A database of another encoding than UTF-8 cannot hold every key: one that it cannot hold would fail all checks of its
 * batch. One of SQL_ASCII takes any bytes, and takes them for the length of a text.
 *
 * @throws InvalidSettingError naming the encoding and the remedy
 */
async function checkEncoding(client: pg.ClientBase): Promise<void> {
  const query = queryOf(client, STATEMENT_TIMEOUT_MS)
  const [row] = await query<{ name: string; encoding: string }>(
    "SELECT current_database() AS name, current_setting('server_encoding') AS encoding",
  )
  if (row === undefined || row.encoding === 'UTF8') return
  throw new InvalidSettingError(
    `Setting "database" leads to the PostgreSQL database ${JSON.stringify(row.name)}, whose server_encoding is ${row.encoding}: it cannot hold every client's key. Give a database made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  )
}

/** @param timeoutMs 0 waits as long as it takes */
function queryOf(client: pg.ClientBase, timeoutMs = 0): Query {
  return async <Row>(sql: string, parameters: readonly SqlValue[] = []) => {
    const statement = { text: sql, values: [...parameters], query_timeout: timeoutMs }
    return rows<Row>(await client.query(statement))
  }
}

/** Lends a connection, which is closed when the work fails. */
async function withConnection<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    const result = await work(client)
    client.release()
    return result
  } catch (error) {
    if (isGivenUp(error)) void cancelStatement(client).then(() => client.release(true))
    else client.release(true)
    throw error
  }
}

/** A failure closes the connection, which is what rolls back: so none that hangs is waited for once more. */
function inTransaction<T>(pool: pg.Pool, begin: string, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  return withConnection(pool, async (client) => {
    const query = queryOf(client, STATEMENT_TIMEOUT_MS)
    await query(begin)
    const result = await work(client)
    await query('COMMIT')
    return result
  })
}

const parseTimestamp = pg.types.getTypeParser(pg.types.builtins.TIMESTAMPTZ)

let lastText = ''
let lastMs = Number.NaN

/** Rows of one answer tend to have the same timestamp, the end of a window above all: it is read once. */
function parseMs(text: string): number {
  if (text !== lastText) {
    lastMs = Number(parseTimestamp(text))
    lastText = text
  }
  return lastMs
}

/** Counts and timestamps are numbers here: whole, and far below 2^53. */
function typeParser(oid: number, format?: 'text' | 'binary') {
  if (oid === pg.types.builtins.INT8 || oid === pg.types.builtins.NUMERIC) return Number
  if (oid === pg.types.builtins.TIMESTAMPTZ) return parseMs
  return pg.types.getTypeParser(oid, format)
}

// The driver cannot know what a statement's rows look like; the caller, who wrote the statement, does.
function rows<Row>(result: pg.QueryResult): Row[] {
  return result.rows as Row[]
}
