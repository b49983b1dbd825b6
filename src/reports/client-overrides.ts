import { overrideClientsFor } from '../clients/client-networks.js'
import { lastsSql } from '../rules/ban.js'
import { type Change, readChangesFor } from '../rules/history/history.js'
import { clampedIsoTime, type LogSnapshot } from './report.js'

/** An override or a ban that is in force. */
export interface OverrideInForce {
  readonly id: number
  /** The client of the override: this one, or a network that contains it. */
  readonly client: string
  /** `deny`, `allow`, or a rate. */
  readonly effect: string
  /** The algorithm of the rate. */
  readonly algorithm: string
  /** Empty: every path. */
  readonly path_pattern: string
  /** ISO 8601, UTC; null without an end. */
  readonly expires_at: string | null
  readonly note: string
  readonly created_at: string
  readonly updated_at: string
}

/** An override or a ban that is in force for a client, with who wrote it. */
export interface ClientOverride extends OverrideInForce {
  /** The one who changed it last, by the history: `rule:<name>` for a ban; empty where that is not known. */
  readonly actor: string
}

export interface ClientOverrides {
  /** The overrides in force now, the newest first. */
  readonly overrides: readonly ClientOverride[]
  /** The changes of these overrides, and of those that are over: the newest first; 100 at most. */
  readonly history: readonly Change[]
}

type OverrideSource = Pick<LogSnapshot, 'entries' | 'nowMs' | 'privacy'>

interface OverrideRow extends Omit<OverrideInForce, 'expires_at' | 'created_at' | 'updated_at'> {
  readonly expires_at: number | null
  readonly created_at: number
  readonly updated_at: number
}

const MAX_CHANGES = 100

/**
 * Reads the overrides for a client, and for the networks that contain it.
 *
 * @param spellings of the client: as the log has it, and as an operator spells it
 */
export async function readClientOverrides(
  snapshot: LogSnapshot,
  spellings: readonly string[],
): Promise<ClientOverrides> {
  const clients = overrideClients(snapshot, spellings)
  if (clients.length === 0) return { overrides: [], history: [] }
  const [rows, history] = await Promise.all([
    readInForce(snapshot, clients),
    readChangesFor(snapshot.entries, 'override', clients, MAX_CHANGES),
  ])
  const overrides = rows.map(
    (row): ClientOverride => ({ ...row, actor: history.find(({ after }) => isAfterChange(row, after))?.actor ?? '' }),
  )
  return { overrides, history }
}

/** Reads what is in force for each of some clients, also by the networks that contain it: the newest first. */
export async function readOverridesOf(
  source: OverrideSource,
  clients: readonly string[],
): Promise<ReadonlyMap<string, readonly OverrideInForce[]>> {
  const namesByClient = new Map(clients.map((client) => [client, overrideClients(source, [client])]))
  const all = [...new Set([...namesByClient.values()].flat())]
  const rows = all.length === 0 ? [] : await readInForce(source, all)
  return new Map(
    Array.from(namesByClient, ([client, names]) => [client, rows.filter((row) => names.includes(row.client))]),
  )
}

/** Returns the clients whose overrides concern a client: itself, and the networks that contain it. */
function overrideClients({ privacy }: OverrideSource, spellings: readonly string[]): string[] {
  const all = [...spellings, ...(privacy === undefined ? [] : spellings.map(privacy.toCounted))]
  return [...new Set(all.flatMap(overrideClientsFor))]
}

async function readInForce(
  { entries: { query, dialect }, nowMs }: OverrideSource,
  clients: readonly string[],
): Promise<OverrideInForce[]> {
  const rows = await query<OverrideRow>(
    `SELECT id, client, effect, algorithm, path_pattern, expires_at, note, created_at, updated_at
     FROM ${dialect.table('rate_limit_override')} AS entry
     WHERE ${dialect.isOneOf('client', '$1', 'text')} AND (expires_at IS NULL OR ${lastsSql(dialect, 'entry', '$2')})
     ORDER BY id DESC`,
    [JSON.stringify(clients), Math.floor(nowMs)],
  )
  return rows.map((row) => ({
    ...row,
    expires_at: row.expires_at === null ? null : clampedIsoTime(row.expires_at),
    created_at: clampedIsoTime(row.created_at),
    updated_at: clampedIsoTime(row.updated_at),
  }))
}

/** Returns whether a change left an override as it is, by what identifies it. */
function isAfterChange({ client, path_pattern }: OverrideInForce, after: Change['after']): boolean {
  return after !== null && after.client === client && after.pathPattern === path_pattern
}
