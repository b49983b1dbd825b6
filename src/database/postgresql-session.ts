/** The sessions of PostgreSQL: what this package's connections and Prisma's have in common. */
import type pg from 'pg'
import { InvalidSettingError, unloadablePeer } from '../ground/errors.js'
import { loadModule } from '../ground/package-root.js'
import { driverTypes } from './postgresql-types.js'

export const CONNECT_TIMEOUT_MS = 5_000

/**
 * The spelling of values in both directions, whatever the server, the database, the role, the URL or the environment
 * says: Prisma writes and reads moments without their zone, and statements have backslashes in literals. They are
 * parameters of the connection's start, which poolers know and keep per client: PgBouncer refuses most others, and a SET
 * would change the sessions of other clients behind it.
 */
const SPELLING = { TimeZone: 'UTC', DateStyle: 'ISO, MDY', standard_conforming_strings: 'on' } as const

/** Two moments of a year, and their spelling in a session with these parameters. */
const MOMENTS = 'ARRAY[to_timestamp(1704067200), to_timestamp(1719792000)]::text'
const MOMENTS_SPELLED = '{"2024-01-01 00:00:00+00","2024-07-01 00:00:00+00"}'

const SESSION_QUERY = {
  text: `SELECT current_database() AS name, current_setting('server_encoding') AS encoding,
  current_setting('TimeZone') AS zone, current_setting('DateStyle') AS "dateStyle", ${MOMENTS} AS moments,
  current_setting('standard_conforming_strings') AS "conformingStrings",
  current_setting('default_transaction_isolation') LIKE 'read %' AS "seesCommits"`,
  query_timeout: 5_000,
}

interface SessionRow {
  readonly name: string
  readonly encoding: string
  readonly zone: string
  readonly dateStyle: string
  readonly moments: string
  readonly conformingStrings: string
  readonly seesCommits: boolean
}

/** Sessions whose statements keep to the snapshot that they begin with, because the role has it so. */
const keepingSnapshots = new WeakSet<pg.ClientBase>()

/**
 * Loads the driver, an optional peer, for which servers with other databases need not wait.
 *
 * @throws InvalidSettingError when it is not installed
 */
export function loadDriver(): typeof pg {
  try {
    return loadModule('pg') as typeof pg
  } catch (error) {
    throw unloadablePeer({ user: 'A database with a URL of PostgreSQL', name: 'pg', since: '8.16.3' }, error)
  }
}

/** Returns the options of a pool whose sessions can be used, and spell values in one way. */
export function sessionOptions(url: string, name: string): pg.PoolConfig {
  const { Client, types } = loadDriver()
  // The driver's types lack this method.
  const startParameters: unknown = Reflect.get(Client.prototype, 'getStartupConf')
  if (typeof startParameters !== 'function') throw new TypeError('The driver of PostgreSQL has changed: use pg 8')
  class SpellingClient extends Client {
    getStartupConf(): object {
      return { ...Object(Reflect.apply(Object(startParameters), this, [])), ...SPELLING }
    }
  }
  return {
    connectionString: url,
    // The time-out keeps the driver and commands from waiting forever for a silent server.
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: name,
    Client: SpellingClient,
    types: { getTypeParser: driverTypes(types) },
    // Checks each connection: the server may have been unreachable when the process started.
    onConnect: checkSession,
  }
}

/** Returns whether a statement without a transaction would fail where it meets another one's write. */
export function keepsSnapshots(client: pg.ClientBase): boolean {
  return keepingSnapshots.has(client)
}

/** @throws InvalidSettingError naming what this package cannot use, and the remedy */
async function checkSession(client: pg.ClientBase): Promise<void> {
  const { rows } = await client.query<SessionRow>(SESSION_QUERY)
  const [session] = rows
  if (session === undefined) return
  requireUtf8(session)
  requireSpelling(session)
  if (!session.seesCommits) keepingSnapshots.add(client)
}

/** Encodings other than UTF-8 cannot hold every key. SQL_ASCII counts bytes as the length of a text. */
function requireUtf8({ name, encoding }: SessionRow): void {
  if (encoding === 'UTF8') return
  throw new InvalidSettingError(
    `Setting "database" leads to the PostgreSQL database ${JSON.stringify(name)}, whose server_encoding is ${encoding}: it cannot hold every client's key. Give a database made with CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0`,
  )
}

/** Session parameters may be missing: a pooler may drop those that a client sends at its start. */
function requireSpelling({ zone, dateStyle, moments, conformingStrings }: SessionRow): void {
  if (moments === MOMENTS_SPELLED && conformingStrings === 'on') return
  throw new InvalidSettingError(
    `Setting "database" leads to a session with TimeZone ${zone}, DateStyle ${dateStyle} and standard_conforming_strings ${conformingStrings}, though UTC, ISO and on were asked for: dates would be off. Let the pooler pass on these three, or set them with ALTER ROLE … SET`,
  )
}
