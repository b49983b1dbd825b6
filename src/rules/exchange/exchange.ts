import type { Database } from '../../database/database.js'
import { type Dialect, runStatement, runWork, type SqlWork } from '../../database/dialect.js'
import { readRevision, revisionSql } from '../../database/revision.js'
import { InvalidSettingError, RuleDocumentError } from '../../ground/errors.js'
import type { Clock } from '../../ground/time/clock.js'
import { doesNotExist } from '../../ground/unknown-option.js'
import type { Description, Entry, FieldTable } from '../description.js'
import { findExtraGroup } from '../group.js'
import { fromSource } from '../history/actor.js'
import { OVERRIDES, type OverrideEntry } from '../overrides/override.js'
import { readEntries, readEntrySlices } from '../read-entries.js'
import { RULES } from '../rule.js'
import type { RuleEntry } from '../rule-fields.js'
import { changeLocked, LockedTable } from '../table.js'
import { type CompareOptions, type Comparison, compareEntries, type Difference } from './difference.js'
import { DOCUMENT_VERSION, type RuleDocument, SCHEMA_PATH } from './rule-document.js'
import { validateDocument } from './validate-document.js'

export interface ImportOptions {
  /** Returns only the difference: false unless given. */
  readonly dryRun?: boolean | undefined
  /** Keeps entries that the document lacks, instead of deleting them: false unless given. */
  readonly keep?: boolean | undefined
}

export interface ImportResult {
  readonly rules: Difference<RuleEntry, 'name'>
  readonly overrides: Difference<OverrideEntry, 'client' | 'pathPattern'>
  /** The number of expired overrides of the document, which were left out. */
  readonly expired: number
  /** Whether the database now equals the document; false for a dry run. */
  readonly applied: boolean
}

/** A part of a document: some of its rules, or of its overrides, which come behind all rules. */
export type DocumentSlice = Partial<Pick<RuleDocument, 'rules' | 'overrides'>>

/** The beginning of a document. */
export const DOCUMENT_HEAD = { $schema: SCHEMA_PATH, version: DOCUMENT_VERSION } as const

/**
 * Exports all rules, active or not, and all overrides that have not expired, as of one moment. The same rules make the
 * same document, whatever the order in which they were written.
 */
export async function exportRules(database: Database, clock: Clock): Promise<RuleDocument> {
  const rules: RuleEntry[] = []
  const overrides: OverrideEntry[] = []
  await exportSlices(database, clock, async (slices) => {
    for await (const slice of slices) {
      rules.push(...(slice.rules ?? []))
      overrides.push(...(slice.overrides ?? []))
    }
  })
  return { ...DOCUMENT_HEAD, rules, overrides }
}

/**
 * Exports the same slice by slice, so that no more entries are in memory.
 *
 * @param receive takes the slices; until it has, other reports wait, so that it must not wait for anybody
 */
export function exportSlices<T>(
  database: Database,
  clock: Clock,
  receive: (slices: AsyncIterable<DocumentSlice>) => Promise<T>,
): Promise<T> {
  return database.report((query) => receive(readSlices({ query, dialect: database.dialect }, clock.now())))
}

async function* readSlices(
  database: Pick<Database, 'query' | 'dialect'>,
  nowMs: number,
): AsyncGenerator<DocumentSlice> {
  for await (const rules of readEntrySlices(database, RULES)) yield { rules }
  for await (const overrides of readEntrySlices(database, OVERRIDES)) {
    yield { overrides: overrides.filter((override) => !OVERRIDES.hasExpired(override, nowMs)) }
  }
}

/**
 * Makes the rules and overrides of the database equal to those of a document: all or nothing, in one transaction that
 * locks them. A list that the document lacks stays unchanged. Equal entries are not written: a second import does
 * nothing.
 *
 * @param document an exported document, or the parsed JSON of its file
 * @throws RuleDocumentError with a message for every wrong field, InvalidSettingError for an unknown option; nothing
 * is written then
 */
export async function importRules(
  database: Database,
  clock: Clock,
  document: unknown,
  options: ImportOptions = {},
): Promise<ImportResult> {
  const { dryRun = false, keep = false, ...unknown } = options
  // A mistyped "dryRun" must not delete rules.
  for (const name of Object.keys(unknown)) {
    throw new InvalidSettingError(`Setting "import.${name}" ${doesNotExist(name, ['dryRun', 'keep'])}`)
  }
  const prepared = await prepareImport(database, clock, document, keep)
  if (!dryRun) return applyTo(database, prepared)
  const { revision: _, ...result } = await compareWith(database, prepared)
  return result
}

/** The difference of a document, and the revision of what it was compared with. */
export interface DatedDifference extends ImportResult {
  readonly revision: number
}

/**
 * Compares the rules and overrides of the database with a document, and writes nothing.
 *
 * @throws RuleDocumentError with a message for every wrong field
 */
export async function compareDocument(
  database: Database,
  clock: Clock,
  document: unknown,
  keep: boolean,
): Promise<DatedDifference> {
  return compareWith(database, await prepareImport(database, clock, document, keep))
}

/**
 * Imports a document whose difference somebody has seen.
 *
 * @param seen the revision of that difference
 * @returns undefined where rules or overrides were changed since, so that nothing was written
 * @throws RuleDocumentError with a message for every wrong field
 */
export async function importSeen(
  database: Database,
  clock: Clock,
  document: unknown,
  keep: boolean,
  seen: number,
): Promise<ImportResult | undefined> {
  const prepared = await prepareImport(database, clock, document, keep)
  try {
    return await applyTo(database, prepared, seen)
  } catch (error) {
    if (error instanceof UnseenChange) return undefined
    throw error
  }
}

/** Ends the transaction of an import that would write what nobody has seen. */
class UnseenChange extends Error {}

/** A valid document, ready to be compared. */
interface Prepared {
  readonly compare: () => SqlWork<Comparisons>
  readonly nowMs: number
  /** The number of expired overrides of the document. */
  readonly expired: number
}

async function prepareImport(
  { dialect, sources }: Database,
  clock: Clock,
  document: unknown,
  keep: boolean,
): Promise<Prepared> {
  const wanted = await validateDocument(document, clock.now(), sources)
  const nowMs = clock.now()
  const overrides = wanted.overrides?.filter((override) => !OVERRIDES.hasExpired(override, nowMs))
  const expired = (wanted.overrides?.length ?? 0) - (overrides?.length ?? 0)

  function* compare(): SqlWork<Comparisons> {
    const options = { keep, nowMs }
    return {
      rules: yield* compareTable(RULES, dialect, wanted.rules, options, refuseGroups),
      overrides: yield* compareTable(OVERRIDES, dialect, overrides, options),
    }
  }
  return { compare, nowMs, expired }
}

function compareWith(database: Database, { compare, expired }: Prepared): Promise<DatedDifference> {
  return database.report(async (query) => {
    // The revision is read first: a change that comes between the two is then a newer one, which stops the import.
    const revision = await runWork(query, storedRevision(database.dialect))
    return { ...toResult(await runWork(query, compare()), expired, false), revision }
  })
}

/** @param seen the only revision to write onto; any unless given */
async function applyTo(
  database: Database,
  { compare, nowMs, expired }: Prepared,
  seen?: number,
): Promise<ImportResult> {
  const { dialect } = database

  function* apply(before: number, compared: Comparisons): SqlWork<Comparisons> {
    const revision = yield* storedRevision(dialect)
    if (seen !== undefined && revision !== seen) throw new UnseenChange()
    const comparisons = revision === before ? compared : yield* compare()
    yield* writeComparison(new LockedTable(RULES, database, nowMs), comparisons.rules)
    yield* writeComparison(new LockedTable(OVERRIDES, database, nowMs), comparisons.overrides)
    return comparisons
  }

  // Compared before, since with SQLite this process does nothing else while it holds the lock.
  const before = await readRevision(database, 'rules')
  const unlocked = await runWork(database.query, compare())
  const compared = await fromSource('import', () =>
    changeLocked(database, [RULES, OVERRIDES], () => apply(before, unlocked)),
  )
  return toResult(compared, expired, true)
}

/** Returns the revision of the file or server as it is, which another one that replaced it may have, too. */
function* storedRevision(dialect: Dialect): SqlWork<number> {
  const [row] = yield* runStatement<{ revision: number }>(revisionSql('rules', dialect))
  return Number(row?.revision ?? 0)
}

interface Comparisons {
  readonly rules: Comparison<RuleEntry, 'name'>
  readonly overrides: Comparison<OverrideEntry, 'client' | 'pathPattern'>
}

/** @param wanted `undefined` changes nothing */
function* compareTable<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  dialect: Dialect,
  wanted: readonly Entry<Table>[] | undefined,
  options: CompareOptions,
  refuse: (present: readonly Entry<Table>[], wanted: readonly Entry<Table>[], options: CompareOptions) => void = () =>
    undefined,
): SqlWork<Comparison<Entry<Table>, Identity>> {
  if (wanted === undefined) {
    return { difference: { created: [], updated: [], deleted: [], unchanged: 0 }, written: [] }
  }
  const present = yield* readEntries(description, dialect)
  refuse(present, wanted, options)
  return yield* compareEntries(description, present, wanted, options)
}

/** @throws RuleDocumentError where the rules of a document, and those that stay, would have too many groups */
function refuseGroups(present: readonly RuleEntry[], wanted: readonly RuleEntry[], { keep }: CompareOptions): void {
  const names = new Set(wanted.map(({ name }) => name))
  const kept = keep ? present.filter(({ name }) => !names.has(name)) : []
  const extra = findExtraGroup(
    present.map(({ group }) => group),
    [...kept, ...wanted].map(({ group }) => group),
  )
  if (extra === undefined) return
  const index = wanted.findIndex(({ group }) => group === extra.group)
  throw new RuleDocumentError({ [`${RULES.list}[${index}].group`]: extra.problem })
}

function* writeComparison<Table extends FieldTable, Identity extends keyof Table & string>(
  table: LockedTable<Table, Identity>,
  { difference, written }: Comparison<Entry<Table>, Identity>,
): SqlWork<void> {
  yield* table.deleteEntries(difference.deleted)
  yield* table.write(written)
}

function toResult({ rules, overrides }: Comparisons, expired: number, applied: boolean): ImportResult {
  return { rules: rules.difference, overrides: overrides.difference, expired, applied }
}
