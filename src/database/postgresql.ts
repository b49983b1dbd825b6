import { createHash } from 'node:crypto'
import type pg from 'pg'
import { type Query, runWork, type SqlConnection, type SqlValue } from './dialect.js'
import { cancelStatement, isGivenUp } from './postgresql-cancel.js'
import { patientPool } from './postgresql-pool.js'
import { keepsSnapshots, loadDriver, sessionOptions } from './postgresql-session.js'
import { countsAndMoments } from './postgresql-types.js'

/** Prisma's migration lock, so that `prisma migrate deploy` and `migrate()` exclude each other. */
const MIGRATION_LOCK = 72_707_369
/** Two statements of the limiter, one of the event log, two of a report; and one for rare work: polls, rules, staff. */
const POOL_SIZE = 6
/** A longer statement of the limiter or the event log means a dead connection, and is given up. */
const STATEMENT_TIMEOUT_MS = 5_000
/** The time limit of a report's statement, which may read a long log. */
const REPORT_TIMEOUT_MS = 60_000
/** The longest wait for other transactions that wrote to a table, before locking it fails. */
const LOCK_TIMEOUT_MS = 10_000
/** A role's own limits are for statements of an app, and would end a report or a migration. */
const OWN_TIMEOUTS = `SET LOCAL statement_timeout = ${REPORT_TIMEOUT_MS}; SET LOCAL lock_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = ${2 * REPORT_TIMEOUT_MS}`
const BEGIN_READING = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY'
/** Compiling a query, or starting workers for it, takes longer than most queries of a report. */
const PLAN_QUICKLY = 'SET LOCAL jit = off; SET LOCAL parallel_setup_cost = 50000'
/** Begins a transaction that sees the writes it waited for, whatever isolation the role has by default. */
const BEGIN_CURRENT = 'BEGIN ISOLATION LEVEL READ COMMITTED'

export function createPostgresqlConnection(url: string, schema: string): SqlConnection {
  const { escapeIdentifier, escapeLiteral, types } = loadDriver()
  const pool = new (patientPool())({
    ...sessionOptions(url, 'fastify-smart-ratelimit'),
    max: POOL_SIZE,
    keepAlive: true,
    // An idle pool keeps no process alive.
    allowExitOnIdle: true,
    types: { getTypeParser: countsAndMoments(types) },
  })
  // The next query replaces a connection that breaks while idle.
  pool.on('error', () => undefined)
  // A connection that breaks in use fails its query; without a listener it would also end the process.
  pool.on('connect', (client) => client.on('error', () => undefined))
  // Statements have names, so that the server plans each once per connection; by their text, since behind a pooler another
  // process may have used the connection.
  const names = new Map<string, string>()

  function prepared(sql: string, parameters: readonly SqlValue[], timeoutMs = STATEMENT_TIMEOUT_MS) {
    let name = names.get(sql)
    if (name === undefined) {
      name = `fsr_${createHash('sha256').update(sql).digest('hex').slice(0, 32)}`
      names.set(sql, name)
    }
    return { name, text: sql, values: [...parameters], query_timeout: timeoutMs }
  }

  /** Queries that a report asks for together run on the connection that is free first. */
  function createReader(free: pg.PoolClient[]): Query {
    const waiting: ((reader: pg.PoolClient) => void)[] = []
    return async <Row>(sql: string, parameters: readonly SqlValue[] = []) => {
      const reader = free.pop() ?? (await new Promise<pg.PoolClient>((resolve) => waiting.push(resolve)))
      try {
        return resultRows<Row>(await reader.query(prepared(sql, parameters, REPORT_TIMEOUT_MS)))
      } finally {
        const resume = waiting.shift()
        if (resume === undefined) free.push(reader)
        else resume(reader)
      }
    }
  }

  return {
    async query<Row>(sql: string, parameters: readonly SqlValue[] = []) {
      return resultRows<Row>(await runSingle(pool.connect(), prepared(sql, parameters)))
    },

    async execute(sql, parameters = []) {
      return (await runSingle(pool.connect(), prepared(sql, parameters))).rowCount ?? 0
    },

    transaction(statements) {
      return inTransaction(pool.connect(), BEGIN_CURRENT, async (client) => {
        let changed = 0
        for (const { sql, parameters, mustChange, plannedOnce } of statements) {
          const statement = prepared(sql, parameters, REPORT_TIMEOUT_MS)
          const { rowCount } = await client.query(plannedOnce ? statement : { ...statement, name: undefined })
          if (rowCount === 0 && mustChange) {
            // The rollback is no failure, which would cost the connection: what is committed then is a transaction
            // without statements.
            await createQuery(client, STATEMENT_TIMEOUT_MS)('ROLLBACK AND CHAIN')
            return null
          }
          changed += rowCount ?? 0
        }
        return changed
      })
    },

    get short() {
      return this
    },

    snapshot(read) {
      return inTransaction(pool.connect(), `${BEGIN_READING}; ${PLAN_QUICKLY}`, async (client) => {
        const [exported] = await createQuery(client)<{ id: string }>('SELECT pg_export_snapshot() AS id')
        const other = await pool.connectAnother()
        // Where there are few connections, a report that waited for another one would keep its own from the counters.
        if (other === undefined) return read(createReader([client]))
        const join = `SET TRANSACTION SNAPSHOT ${escapeLiteral(exported?.id ?? '')}`
        return inTransaction(other, `${BEGIN_READING}; ${join}; ${PLAN_QUICKLY}`, () => {
          return read(createReader([client, other]))
        })
      })
    },

    locked(tables, work) {
      return inTransaction(pool.connect(), BEGIN_CURRENT, async (client) => {
        const query = createQuery(client, REPORT_TIMEOUT_MS)
        await query(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`)
        await query(`LOCK TABLE ${tables.join(', ')} IN SHARE ROW EXCLUSIVE MODE`)
        return runWork(query, work())
      })
    },

    exclusively(migrate) {
      return inTransaction(pool.connect(), BEGIN_CURRENT, async (client) => {
        await client.query('SET LOCAL statement_timeout = 0')
        await client.query(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`)
        // An "IF NOT EXISTS" would need the right to create schemas even where the schema exists.
        const { rowCount } = await client.query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
        if (rowCount === 0) await client.query(`CREATE SCHEMA ${escapeIdentifier(schema)}`)
        await client.query(`SET LOCAL search_path TO ${escapeIdentifier(schema)}`)
        return migrate(createQuery(client), async (sql) => {
          await client.query(sql)
        })
      })
    },

    async close() {
      if (!pool.ended) await pool.end()
    },
  }
}

/** @param timeoutMs 0 for no time limit */
function createQuery(client: pg.ClientBase, timeoutMs = 0): Query {
  return async <Row>(sql: string, parameters: readonly SqlValue[] = []) => {
    const statement = { text: sql, values: [...parameters], query_timeout: timeoutMs }
    return resultRows<Row>(await client.query(statement))
  }
}

type Connected = pg.PoolClient | Promise<pg.PoolClient>

/** Runs `work` with a connection, which is closed when `work` fails. */
async function withConnection<T>(connected: Connected, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await connected
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

/** Runs one statement, in a transaction where without one it would keep to a snapshot, and fail behind other writers. */
function runSingle(connected: Connected, statement: pg.QueryConfig): Promise<pg.QueryResult> {
  return withConnection(connected, async (client) => {
    if (!keepsSnapshots(client)) return client.query(statement)
    await client.query(BEGIN_CURRENT)
    const result = await client.query(statement)
    await client.query('COMMIT')
    return result
  })
}

/** Runs `work` in a transaction. A failure closes the connection, which rolls back without waiting if it hangs. */
function inTransaction<T>(
  connected: Connected,
  begin: string,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return withConnection(connected, async (client) => {
    const query = createQuery(client, STATEMENT_TIMEOUT_MS)
    await query(`${begin}; ${OWN_TIMEOUTS}`)
    const result = await work(client)
    await query('COMMIT')
    return result
  })
}

// The caller, who wrote the statement, alone knows the type of its rows.
function resultRows<Row>(result: pg.QueryResult): Row[] {
  return result.rows as Row[]
}
