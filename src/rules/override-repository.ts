import type { Database } from '../db/database.js'
import { Freshness } from '../db/freshness.js'
import { messageOf } from '../errors.js'
import type { RejectedRow } from './load-reports.js'
import { type OverrideRow, parseOverride } from './override.js'
import type { OverrideSet } from './override-set.js'
import { Slices } from './slices.js'

export interface LoadedOverrides {
  readonly rejected: readonly RejectedRow[]
}

export interface OverrideReaderOptions {
  readonly database: Database
  /** Where what is read goes. */
  readonly set: OverrideSet
  /** How long changes alone are read before the whole table is read again, in milliseconds. */
  readonly ttlMs: number
  readonly now: () => number
}

/** Rows read at once: so few that a synchronous driver holds nobody up. */
const PAGE_SIZE = 1_000
/** More recorded changes than this are not followed one by one: the whole table is read. */
const MAX_CHANGES = 1_000
/** Changes become visible in the order of the commits, which is not quite that of their ids: so many are read twice. */
const OVERLAP = 200

interface StoredRow extends OverrideRow {
  readonly id: number
}

const SELECTED = `entry.id, entry.client, entry.effect, entry.algorithm, entry.path_pattern AS "pathPattern",
  entry.expires_at AS "expiresAt"`

/**
 * Keeps an override set like the table. All of it is read once, a page at a time, and again when it has become old;
 * in between only the rows whose change was recorded, so that an edit costs the same however many rows there are.
 * Nothing changes in the set unless all that had to be read could be.
 */
export class OverrideReader {
  readonly #options: OverrideReaderOptions
  readonly #rows = new Map<number, StoredRow>()
  readonly #rejected = new Map<number, RejectedRow>()
  /** The newest recorded change that was seen. */
  #newestChange = 0
  /** Of the whole table as it was read: changes alone bring it up to date. */
  readonly #freshness = new Freshness()
  #lastLoad: Promise<unknown> = Promise.resolve()

  constructor(options: OverrideReaderOptions) {
    this.#options = options
  }

  /** @param onRows told when the table has answered, and what is left is work for this process */
  load(onRows: () => void = () => undefined): Promise<LoadedOverrides> {
    const load = this.#lastLoad.then(() => this.#load(onRows))
    this.#lastLoad = load.catch(() => undefined)
    return load
  }

  /** The next load reads the whole table. */
  expire(): void {
    this.#freshness.end()
  }

  async #load(onRows: () => void): Promise<LoadedOverrides> {
    const nowMs = this.#options.now()
    if (!this.#freshness.covers(nowMs) || !(await this.#readChanges())) await this.#readAll(nowMs, onRows)
    return { rejected: [...this.#rejected.values()] }
  }

  /** @returns whether that was all there was to read */
  async #readChanges(): Promise<boolean> {
    const { database } = this.#options
    const { table } = database.dialect
    const rows = await database.query<StoredRow & { changeId: number; entity: string; rowId: number }>(
      `SELECT change.id AS "changeId", change.entity, change.row_id AS "rowId", ${SELECTED}
       FROM (
         SELECT id, entity, row_id FROM ${table('rate_limit_change')} WHERE id > $1 ORDER BY id LIMIT ${MAX_CHANGES}
       ) AS change
       LEFT JOIN ${table('rate_limit_override')} AS entry ON change.entity = 'override' AND entry.id = change.row_id
       ORDER BY change.id`,
      [this.#newestChange - OVERLAP],
    )
    if (rows.length === MAX_CHANGES) return false
    const found = new Map<number, StoredRow | null>()
    for (const row of rows) {
      if (row.entity === 'override') found.set(row.rowId, row.id === null ? null : row)
      this.#newestChange = Math.max(this.#newestChange, row.changeId)
    }
    await this.#apply(found)
    this.#removeReplaced(found)
    return true
  }

  /** A row that SQLite's REPLACE put another in the place of left no trace of its going. */
  #removeReplaced(found: ReadonlyMap<number, StoredRow | null>): void {
    for (const [id, row] of found) {
      if (row === null) continue
      for (const other of this.#options.set.othersOf(id)) {
        const known = this.#rows.get(other)
        const isReplaced = known?.client === row.client && known.pathPattern === row.pathPattern
        if (isReplaced && !found.has(other)) this.#remove(other)
      }
    }
  }

  async #readAll(nowMs: number, onRows: () => void): Promise<void> {
    const newestChange = await this.#readNewestChange()
    const found = new Map<number, StoredRow | null>()
    for (const id of this.#rows.keys()) found.set(id, null)
    const slices = new Slices()
    let lastId = Number.MIN_SAFE_INTEGER
    for (;;) {
      const rows = await this.#readPage(lastId, nowMs)
      onRows()
      for (const row of rows) {
        if (isSameRow(this.#rows.get(row.id), row)) found.delete(row.id)
        else found.set(row.id, row)
        lastId = row.id
      }
      if (rows.length < PAGE_SIZE) break
      await slices.pause()
    }
    await this.#apply(found)
    this.#newestChange = newestChange
    this.#freshness.start(nowMs, this.#options.ttlMs)
  }

  async #readNewestChange(): Promise<number> {
    const { database } = this.#options
    const [row] = await database.query<{ id: number | null }>(
      `SELECT MAX(id) AS id FROM ${database.dialect.table('rate_limit_change')}`,
    )
    return row?.id ?? 0
  }

  #readPage(lastId: number, nowMs: number): Promise<StoredRow[]> {
    const { database } = this.#options
    const { table, fromMs } = database.dialect
    return database.query<StoredRow>(
      `SELECT ${SELECTED} FROM ${table('rate_limit_override')} AS entry
       WHERE entry.id > $1 AND (entry.expires_at IS NULL OR entry.expires_at > ${fromMs('$2')})
       ORDER BY entry.id LIMIT ${PAGE_SIZE}`,
      [lastId, nowMs],
    )
  }

  /** @param found rows by their ids, null for one that is no more */
  async #apply(found: ReadonlyMap<number, StoredRow | null>): Promise<void> {
    const slices = new Slices()
    for (const [id, row] of found) {
      if (row === null) this.#remove(id)
      else if (!isSameRow(this.#rows.get(id), row)) this.#put(row)
      if (slices.over()) await slices.pause()
    }
  }

  #remove(id: number): void {
    this.#rows.delete(id)
    this.#rejected.delete(id)
    this.#options.set.remove(id)
  }

  #put({ id, client, effect, algorithm, pathPattern, expiresAt }: StoredRow): void {
    const row = { id, client, effect, algorithm, pathPattern, expiresAt }
    this.#rows.set(id, row)
    this.#rejected.delete(id)
    try {
      this.#options.set.put({ id, ...parseOverride(row) })
    } catch (error) {
      this.#options.set.remove(id)
      this.#rejected.set(id, { name: String(client), reason: messageOf(error) })
    }
  }
}

function isSameRow(known: StoredRow | undefined, row: StoredRow): boolean {
  return (
    known !== undefined &&
    known.client === row.client &&
    known.effect === row.effect &&
    known.algorithm === row.algorithm &&
    known.pathPattern === row.pathPattern &&
    known.expiresAt === row.expiresAt
  )
}
