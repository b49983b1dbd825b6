import type { Dialect, Query } from '../db/dialect.js'
import { Slices } from '../time/slices.js'
import { readChanges, SPREAD_MS } from './preview-history.js'
import { type ClientKind, parseClientKind } from './rule.js'

/** Answers how a rule told clients apart when it recorded an event; undefined where nobody knows any more. */
export type KindAt = (ruleName: string, timestampMs: number) => ClientKind | undefined

/** How a rule of one name told clients apart from a moment on. */
interface Span {
  readonly sinceMs: number
  /** Empty where there was no such rule. */
  readonly key: string
  readonly kind: ClientKind | undefined
}

interface RuleRow {
  readonly name: string
  readonly key: string
  readonly updated: number
}

/**
 * Reads how rules told clients apart since `fromMs`: from their history, and where nothing of them was recorded since,
 * from the table, which knows nothing from before a rule's last edit. What lies in the future was dated by another
 * clock, and says nothing.
 */
export async function readKinds(query: Query, dialect: Dialect, fromMs: number, nowMs: number): Promise<KindAt> {
  const spans = new Map<string, Span[]>()
  const changes = await readChanges(query, dialect, 'rule', fromMs, nowMs)
  const slices = new Slices()
  for (const { changedMs, before, after } of changes) {
    const was = ruleOf(before)
    const is = ruleOf(after)
    // What was there before its first change was so from the beginning.
    if (was !== undefined && !spans.has(was.name)) add(was.name, Number.NEGATIVE_INFINITY, was.key)
    if (was !== undefined && was.name !== is?.name) add(was.name, changedMs, '')
    if (is !== undefined) add(is.name, changedMs, is.key)
    if (slices.over()) await slices.pause()
  }
  const rules = await query<RuleRow>(`SELECT name, key, updated_at AS updated FROM ${dialect.table('rate_limit_rule')}`)
  for (const { name, key, updated } of rules) {
    if (!spans.has(name)) add(name, updated <= nowMs ? updated : Number.NEGATIVE_INFINITY, key)
  }

  function add(name: string, sinceMs: number, key: string): void {
    const known = spans.get(name) ?? []
    spans.set(name, known)
    // An edit of anything else changes nothing here.
    if (known.at(-1)?.key !== key) known.push({ sinceMs, key, kind: understood(key) })
  }

  return function kindAt(ruleName, timestampMs) {
    const known = spans.get(ruleName) ?? []
    const place = known.findLastIndex(({ sinceMs }) => sinceMs <= timestampMs)
    const span = known[place]
    // What may have been recorded by the rule of before is nobody's.
    return span !== undefined && place > 0 && timestampMs < span.sinceMs + SPREAD_MS ? undefined : span?.kind
  }
}

function ruleOf(fields: string | null): Pick<RuleRow, 'name' | 'key'> | undefined {
  return fields === null ? undefined : JSON.parse(fields)
}

/** Undefined for a key that raw SQL made wrong: no server counted by it. */
function understood(key: string): ClientKind | undefined {
  try {
    return parseClientKind(key)
  } catch {
    return undefined
  }
}
