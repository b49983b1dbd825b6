import { setImmediate } from 'node:timers/promises'
import type { Dialect, Query } from '../../database/dialect.js'
import { listById, pages } from '../../database/list.js'
import { errorMessage } from '../../ground/errors.js'
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import { bannedAtSql } from '../ban.js'
import { enforcedColumns, enforcedFields } from '../description.js'
import type { RecordedChange, RejectedRow } from '../load-log.js'
import type { PathOptions } from '../patterns/path-patterns.js'
import { OVERRIDES, type Override, type OverrideRow, parseOverride } from './override.js'
import { type ActiveOverride, OverrideSet } from './override-set.js'

/** Rows per statement: few enough that a synchronous driver does not delay requests. */
const PAGE_SIZE = 1_000
/** The number of recorded changes above which the whole table is read. */
const MAX_CHANGES_READ = 1_000
/** A transaction may end after one that began later and has higher ids: this many changes are read twice … */
const OVERLAP = 200
/** … and this many before them are counted: where a larger transaction ended late, the whole table is read. */
const COUNTED = 1_000
/** Counting more for every read takes longer than reading the whole table now and then. */
const MAX_COUNTED = 3_000

type StoredOverride = OverrideRow & { readonly id: number }

/** Recorded changes that are not read again: the range of their ids and their number. */
interface PassedChanges {
  readonly afterId: number
  readonly untilId: number
  readonly count: number
}

interface ChangeRow extends StoredOverride, RecordedChange {
  readonly changeId: number
  readonly rowId: number
}

const FIELDS = enforcedFields(OVERRIDES.fields)
const COLUMNS = `entry.id, ${enforcedColumns(OVERRIDES.fields, 'entry')}, ${bannedAtSql('entry')} AS "bannedAt"`

/**
 * Follows the override table. It reads the whole table once, a page at a time, and again after it has expired; in
 * between it reads only the rows with recorded changes, so that an edit costs the same however many rows there are.
 * These changes tell of rules too.
 *
 * Reading changes nothing: `apply` creates the next set from all that was read.
 */
export class OverrideReader {
  readonly #dialect: Dialect
  #set: OverrideSet
  readonly #rows = new Map<number, StoredOverride>()
  readonly #rejected = new Map<number, RejectedRow>()
  /** Rows that were read and are not applied yet, by their ids; null for a deleted one. */
  #read = new Map<number, StoredOverride | null>()
  #passed: PassedChanges = { afterId: 0, untilId: 0, count: 0 }
  #nextPassed = this.#passed
  #isExpired = true
  readonly #changedRules = new Set<number>()
  #hasChanges = false
  /** The ids of the changes that the last reading met, which the next one meets again. */
  #met: ReadonlySet<number> | undefined
  #latest: RecordedChange[] = []

  constructor(dialect: Dialect, router: PathOptions) {
    this.#dialect = dialect
    this.#set = OverrideSet.empty(router)
  }

  /** Returns the rows that the set leaves out. */
  rejected(): readonly RejectedRow[] {
    return [...this.#rejected.values()]
  }

  /** Returns the changes, of rules too, that came after the first reading and were not returned yet. */
  takeLatestChanges(): readonly RecordedChange[] {
    const latest = this.#latest
    this.#latest = []
    return latest
  }

  /** Whether the whole tables have to be read: changes alone do not bring rules and overrides up to date. */
  get isExpired(): boolean {
    return this.#isExpired
  }

  /** The ids of the rules whose changes were read since the last set was created. */
  get changedRules(): ReadonlySet<number> {
    return this.#changedRules
  }

  /** Whether changes were read since the last set was created. */
  get hasChanges(): boolean {
    return this.#hasChanges
  }

  /** Makes the next reading read the tables. */
  expire(): void {
    this.#isExpired = true
  }

  /**
   * Reads the whole table. Rows that change meanwhile may be read as they were before or after:
   * `readChanges` has to follow.
   *
   * @param onRows called when the first of many rows have arrived, and the rest is mostly work for this process
   */
  async readTable(query: Query, nowMs: number, onRows: () => void = () => undefined): Promise<void> {
    const passed = await this.#passAll(query)
    const read = new Map<number, StoredOverride | null>()
    const found = new Set<number>()
    const { table, fromMs } = this.#dialect
    const list = listById<StoredOverride>(
      query,
      `SELECT ${COLUMNS} FROM ${table('rate_limit_override')} AS entry`,
      (parameters) => [`(expires_at IS NULL OR expires_at > ${fromMs(parameters.add(nowMs))})`],
    )
    for await (const rows of pages(this.#dialect, list, PAGE_SIZE)) {
      if (rows.length === PAGE_SIZE) onRows()
      for (const row of rows) {
        if (!isSameRow(this.#rows.get(row.id), row)) read.set(row.id, row)
        found.add(row.id)
      }
      await setImmediate()
    }
    const slices = new CooperativeYield()
    for (const id of this.#rows.keys()) {
      if (!found.has(id)) read.set(id, null)
      if (slices.over()) await slices.pause()
    }
    this.#read = read
    this.#passed = passed
    this.#nextPassed = passed
    this.#isExpired = false
  }

  /**
   * Reads the rows that changed since the last set was created.
   *
   * @returns false where these may not be all changes: the tables have to be read then
   */
  async readChanges(query: Query): Promise<boolean> {
    const { table } = this.#dialect
    const { afterId, untilId, count } = this.#passed
    const changes = await query<ChangeRow>(
      `SELECT change.id AS "changeId", change.entity, change.row_id AS "rowId", change.name, change.action,
         change.actor, change.source, ${COLUMNS}
       FROM (
         SELECT id, entity, row_id, name, action, actor, source FROM ${table('rate_limit_change')} WHERE id > $1 ORDER BY id LIMIT ${MAX_CHANGES_READ}
       ) AS change
       LEFT JOIN ${table('rate_limit_override')} AS entry ON change.entity = 'override' AND entry.id = change.row_id
       ORDER BY change.id`,
      [untilId],
    )
    if (changes.length === MAX_CHANGES_READ || (await this.#countChanges(query, afterId, untilId)) !== count) {
      this.expire()
      return false
    }
    for (const row of changes) {
      if (row.entity === 'override') this.#read.set(row.rowId, row.id === null ? null : row)
    }
    const met = this.#met
    for (const { entity, rowId, changeId } of changes) {
      if (entity === 'rule' && !met?.has(changeId)) this.#changedRules.add(rowId)
    }
    this.#hasChanges ||= changes.some(({ changeId }) => !met?.has(changeId))
    const isOfEntry = ({ entity }: ChangeRow) => entity !== 'incident'
    if (met !== undefined) {
      this.#latest.push(...changes.filter((change) => isOfEntry(change) && !met.has(change.changeId)))
    }
    this.#met = new Set(changes.map(({ changeId }) => changeId))
    const nextId = Math.max(untilId, (changes.at(-1)?.changeId ?? 0) - OVERLAP)
    const passing = changes.filter(({ changeId }) => changeId <= nextId)
    this.#nextPassed = { afterId, untilId: nextId, count: count + passing.length }
    if (nextId - afterId > MAX_COUNTED) this.expire()
    return true
  }

  /** Creates the set from what was read, in slices; returns the same set where nothing changed. */
  async apply(): Promise<OverrideSet> {
    const changes = new Map<number, ActiveOverride | null>()
    const slices = new CooperativeYield()
    for (const [id, row] of this.#read) {
      if (row === null) this.#remove(id, changes)
      else if (!isSameRow(this.#rows.get(id), row)) this.#put(row, changes)
      if (slices.over()) await slices.pause()
    }
    this.#read = new Map()
    this.#changedRules.clear()
    this.#hasChanges = false
    this.#passed = this.#nextPassed
    this.#set = await this.#set.with(changes)
    return this.#set
  }

  async #passAll(query: Query): Promise<PassedChanges> {
    const [newest] = await query<{ id: number | null }>(
      `SELECT MAX(id) AS id FROM ${this.#dialect.table('rate_limit_change')}`,
    )
    const untilId = (newest?.id ?? 0) - OVERLAP
    const afterId = untilId - COUNTED
    return { afterId, untilId, count: await this.#countChanges(query, afterId, untilId) }
  }

  async #countChanges(query: Query, afterId: number, untilId: number): Promise<number> {
    const [counted] = await query<{ count: number }>(
      `SELECT COUNT(*) AS count FROM ${this.#dialect.table('rate_limit_change')} WHERE id > $1 AND id <= $2`,
      [afterId, untilId],
    )
    return counted?.count ?? 0
  }

  #put(row: StoredOverride, changes: Changes): void {
    const { id } = row
    const override = this.#parsed(row)
    if (override !== undefined) this.#removeReplaced(row, override, changes)
    this.#rows.set(id, row)
    changes.set(id, override === undefined ? null : { id, ...override })
  }

  #parsed(row: StoredOverride): Override | undefined {
    this.#rejected.delete(row.id)
    try {
      return parseOverride(row)
    } catch (error) {
      this.#rejected.set(row.id, { entity: 'override', name: String(row.client), reason: errorMessage(error) })
      return undefined
    }
  }

  /** Removes the row that SQLite's REPLACE overwrote, whose deletion was not recorded. */
  #removeReplaced({ id, client, pathPattern }: StoredOverride, override: Override, changes: Changes): void {
    for (const { id: other } of this.#set.forClient(override.client)) {
      const replaced = this.#rows.get(other)
      if (other !== id && replaced?.client === client && replaced.pathPattern === pathPattern)
        this.#remove(other, changes)
    }
  }

  #remove(id: number, changes: Changes): void {
    this.#rows.delete(id)
    this.#rejected.delete(id)
    changes.set(id, null)
  }
}

type Changes = Map<number, ActiveOverride | null>

function isSameRow(before: StoredOverride | undefined, row: StoredOverride): boolean {
  return before !== undefined && [...FIELDS, 'bannedAt' as const].every((field) => before[field] === row[field])
}
