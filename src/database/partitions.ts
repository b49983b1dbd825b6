/**
 * The partitions of an event log on PostgreSQL: ranges of ids, which old events leave at once. A partition for all other
 * ids takes what no range is for, so that no insert ever fails.
 */
import { errorCode } from '../ground/errors.js'
import type { Database } from './database.js'
import { BOUND, EVENTS, idsPerDay, LOCK_MS, LOCK_NOT_AVAILABLE, OTHERS, unlessLocked } from './partition-log.js'

/** The number of ranges that are ready for ids to come. */
const RANGES_AHEAD = 3
/** A range of ids. */
export interface Partition {
  /** The name of its table. */
  readonly name: string
  /** The first id; negative infinity for the table that was there first. */
  readonly from: number
  /** The id after the last one. */
  readonly to: number
}

/** Makes the event log of a database a partitioned table, with ranges for ids to come. Returns false where it is one. */
export async function partitionEvents(database: Database): Promise<boolean> {
  const isNew = await database.partitionLog()
  await addPartitions(database)
  return isNew
}

/**
 * Makes ranges for ids to come, where the log is partitioned. What locks hold up is left to the next call. Ids that a
 * statement gave are far from those to come, or are taken for them.
 */
export async function addPartitions(database: Database): Promise<void> {
  const { dialect, query } = database
  const partitions = await readPartitions(database)
  if (partitions.length === 0) return removeBound(database)
  const size = await idsPerDay(dialect, query)
  const [present] = await query<{ last: number; other: number | null }>(
    `SELECT last_value AS last, (SELECT MAX(id) FROM ${dialect.table(OTHERS)} WHERE id < last_value + $1) AS other
     FROM ${dialect.table(`${EVENTS}_id_seq`)}`,
    [RANGES_AHEAD * size],
  )
  if (present === undefined) return
  // Ids for which a range came too late are in the other partition, and stay there.
  const late = present.other === null ? 0 : Math.max(present.other, present.last) + Math.ceil(size / 100)
  let from = Math.max(late, ...partitions.map(({ to }) => to))
  for (; from < present.last + RANGES_AHEAD * size; from += size) {
    if (!(await addPartition(database, from, from + size))) return
  }
}

/** Removes what is left of a change to partitions that was interrupted: the log would refuse the ids of later days. */
async function removeBound(database: Database): Promise<void> {
  const { dialect, query } = database
  if (dialect.provider !== 'postgresql') return
  const events = dialect.table(EVENTS)
  const left = await query(`SELECT 1 FROM pg_constraint WHERE conrelid = $1::regclass AND conname = '${BOUND}'`, [
    events,
  ])
  if (left.length === 0) return
  const statements = [`SET LOCAL lock_timeout = ${LOCK_MS}`, `ALTER TABLE ${events} DROP CONSTRAINT IF EXISTS ${BOUND}`]
  await database.transaction(statements.map((sql) => ({ sql, parameters: [] }))).catch((error: unknown) => {
    if (!HELD_UP.has(errorCode(error))) throw error
  })
}

/**
 * Drops a partition that has no event since a moment, and marks its hours, whose sums its rows are in.
 *
 * @returns the number of its events; 0 where it has later ones, where others use the log for long, or the role may not
 */
export async function dropPartition(database: Database, { name }: Partition, beforeMs: number): Promise<number> {
  const { dialect } = database
  const [table, marks] = [dialect.table(name), dialect.table('rate_limit_rollup_mark')]
  // The index tells the last moment: only what is old is read as a whole.
  const [latest] = await database.query<{ last: number | null }>(
    `SELECT ${dialect.toMs('MAX("timestamp")')} AS last FROM ${table}`,
  )
  if ((latest?.last ?? 0) >= beforeMs) return 0
  const [found] = await database.report((query) =>
    query<{ events: number; from: number | null; to: number | null }>(
      `SELECT COUNT(*) AS events, ${dialect.toMinute('MIN("timestamp")')} / 60 AS from,
         ${dialect.toMinute('MAX("timestamp")')} / 60 AS to FROM ${table}`,
    ),
  )
  if (found === undefined) return 0
  const drop = `DO $$ BEGIN
    LOCK TABLE ${dialect.table(EVENTS)} IN ACCESS EXCLUSIVE MODE;
    IF (SELECT MAX("timestamp") FROM ${table}) >= ${dialect.fromMs(String(beforeMs))} THEN
      RAISE EXCEPTION 'an event was changed meanwhile' USING ERRCODE = '${LOCK_NOT_AVAILABLE}';
    END IF;
    DROP TABLE ${table};
  END $$`
  const statements = [
    { sql: `SET LOCAL lock_timeout = ${LOCK_MS}`, parameters: [] },
    {
      sql: `INSERT INTO ${marks} (hour, since)
        SELECT DISTINCT bucket, bucket * 3600000 FROM ${dialect.table('rate_limit_traffic_rollup')}
        WHERE span = 60 AND bucket >= $1 AND bucket <= $2`,
      parameters: [found.from ?? 0, found.to ?? -1],
    },
    { sql: drop, parameters: [] },
  ]
  try {
    await unlessLocked(() => database.transaction(statements))
  } catch (error) {
    if (errorCode(error) === NOT_PERMITTED) return 0
    if (!dialect.isLocked(error) && !dialect.isLocked(error instanceof Error ? error.cause : undefined)) throw error
    return 0
  }
  return found.events
}

/** @returns false where a lock, another process or an event of a range held it up */
async function addPartition(database: Database, from: number, to: number): Promise<boolean> {
  const { dialect } = database
  const [events, name] = [dialect.table(EVENTS), dialect.table(`${EVENTS}_${from}`)]
  const statements = [
    `SET LOCAL lock_timeout = ${LOCK_MS}`,
    `CREATE TABLE ${name} (LIKE ${events} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES)`,
    `ALTER TABLE ${events} ATTACH PARTITION ${name} FOR VALUES FROM (${from}) TO (${to})`,
  ]
  try {
    await database.transaction(statements.map((sql) => ({ sql, parameters: [] })))
    return true
  } catch (error) {
    if (HELD_UP.has(errorCode(error))) return false
    throw error
  }
}

const NOT_PERMITTED = '42501'
/** A lock, a table that another process has made or makes now, rows in the other partition, a role that owns no tables. */
const HELD_UP: ReadonlySet<string | undefined> = new Set([
  LOCK_NOT_AVAILABLE,
  '42P07',
  '42710',
  '23505',
  '23514',
  NOT_PERMITTED,
])

/** Returns the ranges of a partitioned log, in order; none where it is one table. */
export async function readPartitions({ dialect, query }: Pick<Database, 'dialect' | 'query'>): Promise<Partition[]> {
  if (dialect.provider !== 'postgresql') return []
  const rows = await query<{ name: string; bounds: string }>(
    `SELECT relname AS name, pg_get_expr(relpartbound, pg_class.oid) AS bounds
     FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid WHERE inhparent = to_regclass($1)`,
    [dialect.table(EVENTS)],
  )
  return rows.flatMap(({ name, bounds }) => {
    const [, from, to] = /^FOR VALUES FROM \(('-?\d+'|MINVALUE)\) TO \('(-?\d+)'\)$/.exec(bounds) ?? []
    if (from === undefined) return []
    return [{ name, from: from === 'MINVALUE' ? Number.NEGATIVE_INFINITY : Number(from.slice(1, -1)), to: Number(to) }]
  })
}
