/** Computes the changes of an import. Pure. */
import { type Description, type Entry, type FieldTable, fieldNames, toIdentity } from '../description.js'

/** The fields that differ, as `[before, after]`. */
export type FieldChanges<Compared> = {
  readonly [Field in keyof Compared]?: readonly [before: Compared[Field], after: Compared[Field]]
}

/** The difference between the rules, or the overrides, of the database and those of a document. */
export interface Difference<Compared, Identity extends keyof Compared> {
  readonly created: readonly Compared[]
  readonly updated: readonly (Readonly<Pick<Compared, Identity>> & { readonly changes: FieldChanges<Compared> })[]
  readonly deleted: readonly Compared[]
  /** The number of entries of the document that the database already has. */
  readonly unchanged: number
}

export interface Comparison<Compared, Identity extends keyof Compared> {
  readonly difference: Difference<Compared, Identity>
  /** The entries to write: those created and those updated. */
  readonly written: readonly Compared[]
}

export interface CompareOptions {
  /** Whether entries stay that the document lacks. */
  readonly keep: boolean
  readonly nowMs: number
}

/** Compares in steps. */
export function* compareEntries<Table extends FieldTable, Identity extends keyof Table & string>(
  description: Description<Table, Identity>,
  present: readonly Entry<Table>[],
  wanted: readonly Entry<Table>[],
  { keep, nowMs }: CompareOptions,
): Generator<undefined, Comparison<Entry<Table>, Identity>> {
  const missing = new Map<string, Entry<Table>>()
  for (const entry of present) {
    missing.set(toIdentity(description, entry), entry)
    yield
  }
  const created: Entry<Table>[] = []
  const updated: Difference<Entry<Table>, Identity>['updated'][number][] = []
  const written: Entry<Table>[] = []
  for (const entry of wanted) {
    yield
    const identity = toIdentity(description, entry)
    const before = missing.get(identity)
    missing.delete(identity)
    if (before === undefined) {
      created.push(entry)
      written.push(entry)
      continue
    }
    const changes = changesBetween(before, entry)
    if (Object.keys(changes).length === 0) continue
    updated.push({ ...description.identify(entry), changes })
    written.push(entry)
  }
  // Expired entries have no effect, and an import does not delete them.
  const deleted = keep ? [] : [...missing.values()].filter((entry) => !description.hasExpired(entry, nowMs))
  return { difference: { created, updated, deleted, unchanged: wanted.length - written.length }, written }
}

function changesBetween<Compared extends object>(before: Compared, after: Compared): FieldChanges<Compared> {
  const changes: { [Field in keyof Compared]?: readonly [Compared[Field], Compared[Field]] } = {}
  for (const field of fieldNames(after)) {
    if (before[field] !== after[field]) changes[field] = [before[field], after[field]]
  }
  return changes
}
