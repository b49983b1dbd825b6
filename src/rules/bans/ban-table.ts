/** The rows of bans: overrides that rules write, and that are deleted some time after they have expired. */

import { clientAddress } from '../../clients/client-networks.js'
import { type Network, networksMeet } from '../../clients/network.js'
import type { Database } from '../../database/database.js'
import { type Dialect, runStatement, type SqlWork } from '../../database/dialect.js'
import { BAN_NOTE, lastsSql } from '../ban.js'
import { changeToken, createActionId } from '../history/actor.js'
import { OVERRIDES } from '../overrides/override.js'
import { changeLocked } from '../table.js'

/** A ban that a rule is about to write. */
export interface NewBan {
  readonly ruleName: string
  /** The client as overrides spell it: `ip:203.0.113.7`, `ip:2001:db8::/64`, `ip:~0f…` or `user:7`. */
  readonly client: string
  /** The client in clear, which operators' overrides name; the same unless addresses are not stored. */
  readonly clear: string
  readonly expiresAtMs: number
}

export interface WrittenBans {
  /** The clients that are denied now: by these bans, or by overrides that were in force before. */
  readonly denied: ReadonlySet<string>
  /** The names of the rules whose bans in force are as many as they may be. */
  readonly full: ReadonlySet<string>
}

/** The most bans of a rule in force, so that a flood from countless addresses does not fill the table. */
export const MAX_BANS = 10_000
/** `changed_by` of a row whose deletion the triggers do not record; see the migration. */
const UNRECORDED = 'expired'
const IS_BAN = `effect = 'deny' AND path_pattern = ''`

/**
 * Writes bans, each of another client. A ban replaces an override of its client and the empty path that has expired, or
 * that a wrong clock wrote, and leaves one in force. A client with an `allow` override in force, whatever its path, is not banned.
 */
export function writeBans(database: Database, bans: readonly NewBan[], nowMs: number): Promise<WrittenBans> {
  // The lock makes the number of a rule's bans exact: no other process writes one meanwhile.
  return changeLocked(database, [OVERRIDES], () => writeRows(database.dialect, bans, nowMs))
}

function* writeRows(dialect: Dialect, bans: readonly NewBan[], nowMs: number): SqlWork<WrittenBans> {
  const full = new Set<string>()
  const written: NewBan[] = []
  const allowed = yield* readAllowedNetworks(dialect, nowMs)
  const wanted = bans.filter(({ clear }) => !isAmong(allowed, clear))
  for (const ruleName of new Set(wanted.map((ban) => ban.ruleName))) {
    const ofRule = wanted.filter((ban) => ban.ruleName === ruleName)
    const room = MAX_BANS - (yield* countInForce(dialect, ruleName, nowMs))
    if (ofRule.length > room) full.add(ruleName)
    written.push(...ofRule.slice(0, Math.max(0, room)))
  }
  if (written.length > 0) yield* insertRows(dialect, written, nowMs)
  return { denied: yield* readDenied(dialect, bans, nowMs), full }
}

/** Reads the networks that overrides in force let through; the snapshot of this process may not have them yet. */
function* readAllowedNetworks(dialect: Dialect, nowMs: number): SqlWork<Network[]> {
  const rows = yield* runStatement<{ client: string }>(
    `SELECT client FROM ${dialect.table(OVERRIDES.table)}
     WHERE effect = 'allow' AND client LIKE 'ip:%/%'
       AND (expires_at IS NULL OR expires_at > ${dialect.fromMs(dialect.whole('$1'))})`,
    [nowMs],
  )
  return rows.flatMap(({ client }) => clientAddress(client) ?? [])
}

function isAmong(networks: readonly Network[], client: string): boolean {
  const address = networks.length === 0 ? undefined : clientAddress(client)
  return address !== undefined && networks.some((network) => networksMeet(network, address))
}

function* countInForce(dialect: Dialect, ruleName: string, nowMs: number): SqlWork<number> {
  const [counted] = yield* runStatement<{ count: number }>(
    `SELECT COUNT(*) AS count FROM ${dialect.table(OVERRIDES.table)} AS ban
     WHERE ${lastsSql(dialect, 'ban', '$1')} AND ${IS_BAN} AND note = $2`,
    [nowMs, BAN_NOTE + ruleName],
  )
  return Number(counted?.count ?? 0)
}

function* insertRows(dialect: Dialect, bans: readonly NewBan[], nowMs: number): SqlWork<void> {
  const now = dialect.fromMs(dialect.whole('$2'))
  const rows = bans.map(({ ruleName, client, clear, expiresAtMs }) => [
    client,
    expiresAtMs,
    BAN_NOTE + ruleName,
    // Each is reverted alone, whichever were written together.
    changeToken({ source: 'ban', actor: `rule:${ruleName}`, actionId: createActionId() }),
    clear,
  ])
  const columns = ['effect', 'algorithm', 'expires_at', 'note', 'created_at', 'updated_at', 'changed_by']
  const client = dialect.jsonField(0, 'text')
  yield* runStatement(
    `INSERT INTO ${dialect.table(OVERRIDES.table)} AS standing (client, path_pattern, ${columns.join(', ')})
     SELECT ${client}, '', 'deny', 'fixed_window', ${dialect.fromMs(dialect.jsonField(1, 'bigint'))},
       ${dialect.jsonField(2, 'text')}, ${now}, ${now}, ${dialect.jsonField(3, 'text')}
     FROM ${dialect.jsonRows()}
     WHERE NOT EXISTS (SELECT 1 FROM ${dialect.table(OVERRIDES.table)} AS allowing
       WHERE allowing.client IN (${client}, ${dialect.jsonField(4, 'text')}) AND allowing.effect = 'allow'
         AND (allowing.expires_at IS NULL OR allowing.expires_at > ${now}))
     ON CONFLICT (client, path_pattern) DO UPDATE
     SET ${columns.map((column) => `${column} = excluded.${column}`).join(', ')}
     WHERE NOT ${lastsSql(dialect, 'standing', '$2')}`,
    [JSON.stringify(rows), nowMs],
  )
}

function* readDenied(dialect: Dialect, bans: readonly NewBan[], nowMs: number): SqlWork<ReadonlySet<string>> {
  const rows = yield* runStatement<{ client: string }>(
    `SELECT client FROM ${dialect.table(OVERRIDES.table)} AS denial
     WHERE client IN (SELECT ${dialect.jsonField(0, 'text')} FROM ${dialect.jsonRows()}) AND ${IS_BAN}
       AND (expires_at IS NULL OR ${lastsSql(dialect, 'denial', '$2')})`,
    [JSON.stringify(bans.map(({ client }) => [client])), nowMs],
  )
  return new Set(rows.map(({ client }) => client))
}

/**
 * Deletes up to `batchSize` bans that expired before `cutoffMs`, without a trace in the history, and returns their
 * number. Other overrides that have expired stay.
 */
export async function deleteExpiredBans(database: Database, cutoffMs: number, batchSize: number): Promise<number> {
  const { dialect } = database
  const table = dialect.table(OVERRIDES.table)
  const expired = `expires_at < ${dialect.fromMs(dialect.whole('$1'))}`
  const changed = await database.transaction([
    {
      sql: `UPDATE ${table} SET changed_by = '${UNRECORDED}' WHERE id IN (SELECT id FROM ${table}
        WHERE ${expired} AND ${IS_BAN} AND substr(note, 1, ${BAN_NOTE.length}) = '${BAN_NOTE}'
        ORDER BY expires_at LIMIT $2 ${dialect.skipLocked})`,
      parameters: [cutoffMs, batchSize],
      mustChange: true,
    },
    { sql: `DELETE FROM ${table} WHERE ${expired} AND changed_by = '${UNRECORDED}'`, parameters: [cutoffMs] },
  ])
  // The statement changes each row twice.
  return (changed ?? 0) / 2
}
