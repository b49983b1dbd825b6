/** Makes the event log of PostgreSQL a partitioned table, whose partitions are ranges of ids. */
import { setTimeout as delay } from 'node:timers/promises'
import { errorCode, InvalidSettingError } from '../ground/errors.js'
import type { Dialect, Query, SqlConnection } from './dialect.js'

export const EVENTS = 'rate_limit_event'
const FIRST = `${EVENTS}_first`
export const OTHERS = `${EVENTS}_others`
/** The constraint that lets the first partition become one without being read while writers wait. */
export const BOUND = `${EVENTS}_ids`
/** The indexes of the log, and its triggers, without the beginning of their names. */
const INDEXES = ['key_timestamp', 'timestamp', 'allowed_timestamp_outcome_weight']
const TRIGGERS = ['lock', 'insert', 'update', 'delete', 'truncate'].map((name) => `${EVENTS}_rollup_${name}`)

/** The ids of a partition: those of a day, between these bounds. */
const FEWEST_IDS = 100_000
const MOST_IDS = 1_000_000_000
/** The longest that a statement queues writers behind it, while it waits for those that are under way. */
export const LOCK_MS = 10
/** How often, and at what distances, a lock is asked for: for half a minute. */
const ATTEMPTS = 300
const PAUSE_MS = 100

export const LOCK_NOT_AVAILABLE = '55P03'

/**
 * Makes the event log of a database a partitioned table. Its table becomes the first partition as it stands.
 *
 * @returns false where it is one already
 * @throws InvalidSettingError for SQLite
 */
export async function partitionLog(dialect: Dialect, connection: SqlConnection): Promise<boolean> {
  if (dialect.provider !== 'postgresql') {
    throw new InvalidSettingError(
      'The event log can be partitioned on PostgreSQL only, and the database is a SQLite file',
    )
  }
  const { exclusively } = connection
  const bound = await exclusively(async (query) => {
    if (await isPartitioned(dialect, query)) return undefined
    return (await readLastId(dialect, query)) + (await idsPerDay(dialect, query))
  })
  if (bound === undefined) return false
  const table = dialect.table(EVENTS)
  const isBound = await unlessLocked(() =>
    exclusively(async (query, script) => {
      // Another process may have been faster: a partitioned log must never have a bound.
      if (await isPartitioned(dialect, query)) return false
      if (await hasBound(dialect, query, bound)) return true
      await script(`SET LOCAL lock_timeout = ${LOCK_MS};
        ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS ${BOUND};
        ALTER TABLE ${table} ADD CONSTRAINT ${BOUND} CHECK (id < ${bound}) NOT VALID`)
      return true
    }),
  )
  if (!isBound) return false
  try {
    await exclusively(async (query, script) => {
      if (await hasBound(dialect, query, bound)) await script(`ALTER TABLE ${table} VALIDATE CONSTRAINT ${BOUND}`)
    })
    return await unlessLocked(() =>
      exclusively(async (query, script) => {
        if (await isPartitioned(dialect, query)) return false
        await swap(dialect, query, script, bound)
        return true
      }),
    )
  } catch (error) {
    // Ids of tomorrow would be refused. Where a lock is in the way, the next pruning removes it.
    await exclusively((_query, script) =>
      script(`SET LOCAL lock_timeout = ${LOCK_MS}; ALTER TABLE ${table} DROP CONSTRAINT IF EXISTS ${BOUND}`),
    ).catch(() => undefined)
    throw error
  }
}

/** Puts a partitioned table in the place of the log, in one transaction: triggers, rights and sequence go with the name. */
async function swap(
  dialect: Dialect,
  query: Query,
  script: (sql: string) => Promise<void>,
  bound: number,
): Promise<void> {
  const [events, first, others] = [EVENTS, FIRST, OTHERS].map(dialect.table)
  await script(`SET LOCAL lock_timeout = ${LOCK_MS}; LOCK TABLE ${events} IN ACCESS EXCLUSIVE MODE`)
  if (!(await hasBound(dialect, query, bound, 'convalidated'))) {
    throw new Error('Another process changes the event log: run this again.')
  }
  const triggers = await query<{ name: string; sql: string }>(
    `SELECT tgname AS name, pg_get_triggerdef(oid) AS sql FROM pg_trigger
     WHERE tgrelid = $1::regclass AND tgname = ANY (ARRAY(SELECT jsonb_array_elements_text($2::jsonb))) ORDER BY tgname`,
    [`${events}`, JSON.stringify(TRIGGERS)],
  )
  await script(`
    ${triggers.map(({ name }) => `DROP TRIGGER ${name} ON ${events};`).join('\n')}
    ALTER TABLE ${events} RENAME TO ${FIRST};
    ALTER TABLE ${first} RENAME CONSTRAINT ${EVENTS}_pkey TO ${FIRST}_pkey;
    ${INDEXES.map((name) => `ALTER INDEX ${dialect.table(`${EVENTS}_${name}_idx`)} RENAME TO ${FIRST}_${name}_idx;`).join('\n')}
    CREATE TABLE ${events} (LIKE ${first} INCLUDING DEFAULTS) PARTITION BY RANGE (id);
    ALTER TABLE ${events} ADD CONSTRAINT ${EVENTS}_weight_check CHECK (weight >= 1),
      ADD CONSTRAINT ${EVENTS}_pkey PRIMARY KEY (id);
    CREATE INDEX ${EVENTS}_timestamp_idx ON ${events} ("timestamp");
    CREATE INDEX ${EVENTS}_key_timestamp_idx ON ${events} (key, "timestamp");
    CREATE INDEX ${EVENTS}_allowed_timestamp_outcome_weight_idx ON ${events} (allowed, "timestamp", outcome, weight);
    ALTER TABLE ${events} ATTACH PARTITION ${first} FOR VALUES FROM (MINVALUE) TO (${bound});
    ALTER TABLE ${first} DROP CONSTRAINT ${BOUND};
    CREATE TABLE ${others} PARTITION OF ${events} DEFAULT;
    ALTER SEQUENCE ${dialect.table(`${EVENTS}_id_seq`)} OWNED BY ${events}.id;
    DO $$
    DECLARE
      its RECORD;
    BEGIN
      EXECUTE format('ALTER TABLE ${events} OWNER TO %s', (SELECT relowner::regrole FROM pg_class WHERE oid = '${first}'::regclass));
      FOR its IN SELECT privilege_type AS what, is_grantable AS grants,
          CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END AS grantee
        FROM pg_class, aclexplode(relacl) WHERE pg_class.oid = '${first}'::regclass
      LOOP
        EXECUTE format('GRANT %s ON ${events} TO %s%s', its.what, its.grantee, CASE WHEN its.grants THEN ' WITH GRANT OPTION' ELSE '' END);
      END LOOP;
    END $$;
    ${triggers.map(({ sql }) => `${sql};`).join('\n')}`)
}

async function hasBound(dialect: Dialect, query: Query, bound: number, condition = 'true'): Promise<boolean> {
  const rows = await query(
    `SELECT 1 FROM pg_constraint WHERE conrelid = $1::regclass AND conname = '${BOUND}'
       AND pg_get_constraintdef(oid) LIKE '%(id < %${bound}%)%' AND ${condition}`,
    [dialect.table(EVENTS)],
  )
  return rows.length > 0
}

/** Returns how many ids a day has, as far as the last day and the last hour tell. */
export async function idsPerDay(dialect: Dialect, query: Query): Promise<number> {
  const idAt = (age: string) =>
    `(SELECT id FROM ${dialect.table(EVENTS)} WHERE "timestamp" >= now() - interval '${age}' ORDER BY "timestamp" LIMIT 1)`
  // Not the greatest id, which a statement may have given.
  const [ids] = await query<{ last: number; day: number | null; hour: number | null }>(
    `SELECT last_value AS last, ${idAt('1 day')} AS day, ${idAt('1 hour')} AS hour FROM ${dialect.table(`${EVENTS}_id_seq`)}`,
  )
  const last = ids?.last ?? 0
  const day = last - (ids?.day ?? last)
  const hour = last - (ids?.hour ?? last)
  return Math.min(MOST_IDS, Math.max(FEWEST_IDS, day, 24 * hour))
}

async function readLastId(dialect: Dialect, query: Query): Promise<number> {
  const [row] = await query<{ last: number }>(
    `SELECT GREATEST(last_value, (SELECT MAX(id) FROM ${dialect.table(EVENTS)})) AS last FROM ${dialect.table(`${EVENTS}_id_seq`)}`,
  )
  return row?.last ?? 0
}

async function isPartitioned(dialect: Dialect, query: Query): Promise<boolean> {
  const rows = await query(`SELECT 1 FROM pg_class WHERE oid = to_regclass($1) AND relkind = 'p'`, [
    dialect.table(EVENTS),
  ])
  return rows.length > 0
}

/**
 * Runs a change that needs a lock of the whole log, again and again until no transaction is in its way.
 *
 * @throws Error where one is for half a minute
 */
export async function unlessLocked<T>(change: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await change()
    } catch (error) {
      if (errorCode(error) !== LOCK_NOT_AVAILABLE) throw error
      if (attempt === ATTEMPTS) {
        throw new Error('A long transaction uses the event log: end it, or run this again after it.', { cause: error })
      }
      await delay(PAUSE_MS)
    }
  }
}
