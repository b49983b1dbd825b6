/** What an import changes. Pure. */
import { identityOf, type Section } from './sections.js'

/** Fields that differ, as `[before, after]`. */
export type FieldChanges<Entry> = {
  readonly [Field in keyof Entry]?: readonly [before: Entry[Field], after: Entry[Field]]
}

/** How the rules, or the overrides, of the database differ from those of a document. */
export interface Difference<Entry, Identity extends keyof Entry> {
  readonly created: readonly Entry[]
  readonly updated: readonly (Readonly<Pick<Entry, Identity>> & { readonly changes: FieldChanges<Entry> })[]
  readonly deleted: readonly Entry[]
  /** How many entries of the document are in the database as they should be. */
  readonly unchanged: number
}

export interface Comparison<Entry, Identity extends keyof Entry> {
  readonly difference: Difference<Entry, Identity>
  /** The entries to write: those created and those updated. */
  readonly written: readonly Entry[]
}

export interface CompareOptions {
  /** Whether entries that the document does not name stay. */
  readonly keep: boolean
  readonly nowMs: number
}

/** @param wanted `undefined` leaves everything as it is */
export function compareEntries<Entry extends object, Identity extends keyof Entry>(
  section: Section<Entry, Identity>,
  present: readonly Entry[],
  wanted: readonly Entry[] | undefined,
  { keep, nowMs }: CompareOptions,
): Comparison<Entry, Identity> {
  const missing = new Map(present.map((entry) => [identityOf(section, entry), entry]))
  if (wanted === undefined) {
    return { difference: { created: [], updated: [], deleted: [], unchanged: 0 }, written: [] }
  }
  const created: Entry[] = []
  const updated: Difference<Entry, Identity>['updated'][number][] = []
  const written: Entry[] = []
  for (const entry of wanted) {
    const identity = identityOf(section, entry)
    const before = missing.get(identity)
    missing.delete(identity)
    if (before === undefined) {
      created.push(entry)
      written.push(entry)
      continue
    }
    const changes = changesBetween(section, before, entry)
    if (Object.keys(changes).length === 0) continue
    updated.push({ ...section.identify(entry), changes })
    written.push(entry)
  }
  // What has expired means nothing any more: it is not for an import to clear it away.
  const deleted = keep ? [] : [...missing.values()].filter((entry) => !section.hasExpired(entry, nowMs))
  return { difference: { created, updated, deleted, unchanged: wanted.length - written.length }, written }
}

function changesBetween<Entry extends object, Identity extends keyof Entry>(
  { columns }: Section<Entry, Identity>,
  before: Entry,
  after: Entry,
): FieldChanges<Entry> {
  const changes: { [Field in keyof Entry]?: readonly [Entry[Field], Entry[Field]] } = {}
  for (const [field] of columns) {
    if (before[field] !== after[field]) changes[field] = [before[field], after[field]]
  }
  return changes
}
