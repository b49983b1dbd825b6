import { errorCode } from '../ground/errors.js'
import type { Dialect } from './dialect.js'
import { loadDriver } from './postgresql-session.js'

/**
 * Lets rows be added up by a hash of their keys: sorting them takes several times as long, and is chosen where statistics
 * are missing. Where it cannot be avoided, its apparent cost would have the statement compiled.
 */
const ADD_UP_BY_HASH = `SELECT set_config('enable_sort', 'off', true), set_config('jit', 'off', true)`
/** The longest wait of inserts while settled ids are determined. */
const SETTLE_TIMEOUT_MS = 20
/** The code of a wait for a lock that took too long. */
const LOCK_NOT_AVAILABLE = '55P03'
/** The codes of an undefined table, and of an undefined schema. */
const MISSING_TABLE_CODES: ReadonlySet<string | undefined> = new Set(['42P01', '3F000'])
/** The codes of a prepared statement that does not exist, and of one that exists already. */
const MIXED_STATEMENTS_CODES: ReadonlySet<string | undefined> = new Set(['26000', '42P05'])
/** The classes of errors that are about the rows: data, constraints, views, triggers of the host, sizes. */
const REFUSED_ROWS = /^(?:22|23|44|54|P0)...$/

export function postgresqlDialect(schema: string): Dialect {
  const { escapeIdentifier, escapeLiteral } = loadDriver()
  const table = (name: string) => `${escapeIdentifier(schema)}.${escapeIdentifier(name)}`
  return {
    provider: 'postgresql',
    writeConcurrency: 2,
    writesUnchangedIndexes: false,
    // A statement of many rows spreads its own cost over them.
    rowsPerInsert: 1_000,
    table,
    // A `numeric` would take longer than the rest of the statement.
    fromMs: (expression) => `to_timestamp((${expression})::float8 / 1000)`,
    // Within the range of JavaScript's dates, since raw SQL may have written an infinite moment.
    toMs: (expression) =>
      `LEAST(GREATEST(extract(epoch FROM ${expression}) * 1000, -8640000000000000), 8640000000000000)::bigint`,
    toMinute: (expression) => `${table('rate_limit_minute')}(${expression})`,
    eventsPerFold: 10_000,
    // The log first, in the order of TRUNCATE, which locks it before it empties the rollups.
    lockRollups: [
      `LOCK TABLE ${table('rate_limit_event')} IN ACCESS SHARE MODE`,
      `SELECT event_id FROM ${table('rate_limit_watermark')} FOR UPDATE`,
    ],
    // Inserts share this lock. A long wait for it would queue all further inserts behind a long transaction.
    settleIds: [
      `SET LOCAL lock_timeout = ${SETTLE_TIMEOUT_MS}`,
      `SELECT pg_advisory_xact_lock((72707370::bigint << 32) | ${escapeLiteral(table('rate_limit_event'))}::regclass::oid::bigint)`,
      `SELECT setval(${escapeLiteral(table('rate_limit_watermark_ahead'))}, GREATEST(last_value, (SELECT MAX(id) FROM ${table('rate_limit_event')})))
       FROM ${table('rate_limit_watermark_ahead')}`,
    ],
    lastSettledId: `(SELECT last_value FROM ${table('rate_limit_watermark_ahead')})`,
    readOnce: ({ name, sql }, statements, parameters) => {
      const parts = statements.slice(0, -1).map((statement, index) => `, statement_${index} AS (${statement})`)
      return [
        { sql: ADD_UP_BY_HASH, parameters: [] },
        { sql: `WITH ${name} AS MATERIALIZED (${sql})${parts.join('')} ${statements.at(-1)}`, parameters },
      ]
    },
    whole: (expression) => `(${expression})::bigint`,
    bytewise: (expression) => `${expression} COLLATE "C"`,
    isOneOf: (expression, placeholder, type) =>
      `${expression} = ANY (ARRAY(SELECT jsonb_array_elements_text(${placeholder}::jsonb)::${type}))`,
    // A `json` would parse an element's text again for each of its fields.
    jsonRows: (text = '$1') => `jsonb_array_elements((${text})::jsonb) AS element(value)`,
    jsonField: (index, type) => {
      const text = `(element.value ->> ${index})`
      return type === 'bigint[]' ? `('{' || ${text} || '}')::bigint[]` : `${text}::${type}`
    },
    // A `jsonb` would sort the members.
    jsonMembers: 'json_each_text($1::json) AS element',
    memberNumber: 'element.value::bigint',
    // The statement itself sets it: behind a pooler, a setting of the session would affect other clients' transactions.
    asynchronousCommit: "(SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL",
    asynchronousCommitWithin: (lockTimeoutMs) =>
      `(SELECT set_config('synchronous_commit', 'off', true) || set_config('lock_timeout', '${lockTimeoutMs}', true)) IS NOT NULL`,
    isLocked: (error) => errorCode(error) === LOCK_NOT_AVAILABLE,
    rowsAsJson: (columns) => `json_agg(json_build_array(${columns}))::text`,
    textParts: (text, separator) => `unnest(string_to_array(${text}, '${separator}')) AS part(value)`,
    contains: (text, part) => `strpos(${text}, ${part}) > 0`,
    matching: (text, pattern, replacement) =>
      `CASE WHEN ${text} ~ ${escapeLiteral(pattern)} THEN ${text} ELSE ${escapeLiteral(replacement)} END`,
    list: (expressions) => `ARRAY[${expressions.join(', ')}]::bigint[]`,
    listText: (list) => `array_to_string(${list}, ',')`,
    listFirst: (list) => `${list}[1]`,
    skipLocked: 'FOR UPDATE SKIP LOCKED',
    lockRows: 'FOR UPDATE OF locked',
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
    isMissingTable: (error) => MISSING_TABLE_CODES.has(errorCode(error)),
    mixesStatements: (error) => MIXED_STATEMENTS_CODES.has(errorCode(error)),
    refusesRows: (error) => REFUSED_ROWS.test(errorCode(error) ?? ''),
  }
}
