/** Reports by what a request of the log was decided, as that was when the request came. */
import { overrideClientsFor } from '../clients/client-networks.js'
import { SECOND_MS } from '../ground/time/clock.js'
import { parseAppliedRules } from '../log/applied-rules.js'
import { type EntryThen, findEntriesThen } from '../rules/history/entry-then.js'
import type { ChangedFields } from '../rules/history/history.js'
import { parseOverride } from '../rules/overrides/override.js'
import { type ActiveOverride, compareOverrides } from '../rules/overrides/override-set.js'
import { compiledPattern } from '../rules/patterns/pattern.js'
import type { ListedEvent } from './listed-events.js'
import type { LogSnapshot, Report } from './report.js'

/** The policy that decided about a request, as it was then. */
export type PolicyThen =
  /** A limit of the code: the history has none of these. */
  | { readonly kind: 'code' }
  /** The history cannot tell: it has nothing of that name, or none that was in force. */
  | { readonly kind: 'unknown'; readonly entity: EntryThen['entity']; readonly hasHistory: boolean }
  | (EntryThen & {
      readonly kind: 'entry'
      /** Whether the limit of the event is one of this rate: otherwise the server had another state. */
      readonly hasLimit: boolean
    })

/** The delay with which a rule may come into force on a server after its change, or seem to by the clocks. */
const DELAY_MS = 10 * SECOND_MS

/** A policy of a request, as it was then, and what it did. */
export interface NamedPolicyThen {
  /** The name of the policy, as the event has it. */
  readonly policy: string
  /** Whether a rule beside the deciding policy refused the request, too; undefined for the deciding one. */
  readonly isRefused?: boolean
  readonly state: PolicyThen
}

/**
 * Reports by which rule or override an event was decided, with its fields at that moment and the changes since; behind it
 * the same of each other rule that applied.
 */
export function policiesThen(event: ListedEvent): Report<readonly NamedPolicyThen[]> {
  return async (snapshot) => {
    const others = parseAppliedRules(event.rules).filter(({ name }) => name !== event.rule_name)
    return Promise.all([
      deciderThen(snapshot, event).then((state) => ({ policy: event.policy, state })),
      ...others.map(async ({ name, isRefused }) => ({
        policy: name,
        isRefused,
        // The log has the limit of the deciding policy alone.
        state: await entryThen(snapshot, event, 'rule', [name], ruleNamed(name), () => true),
      })),
    ])
  }
}

async function deciderThen(snapshot: LogSnapshot, event: ListedEvent): Promise<PolicyThen> {
  const isLimit = (entry: EntryThen) => hasLimit(entry, event)
  if (event.rule_name !== '' && event.policy === event.rule_name) {
    return entryThen(snapshot, event, 'rule', [event.rule_name], ruleNamed(event.rule_name), isLimit)
  }
  if (event.policy !== 'override') return { kind: 'code' }
  const choose = (entries: readonly EntryThen[]) => decidingOverride(entries, event)
  return entryThen(snapshot, event, 'override', overrideNames(snapshot, event), choose, isLimit)
}

function ruleNamed(name: string) {
  return (entries: readonly EntryThen[]) => entries.find(({ fields }) => fields.name === name)
}

/** Finds the entry that was in force at an event, or about then, as clocks differ. */
async function entryThen(
  snapshot: LogSnapshot,
  { timestampMs }: ListedEvent,
  entity: EntryThen['entity'],
  names: readonly string[],
  choose: (entries: readonly EntryThen[]) => EntryThen | undefined,
  isLimit: (entry: EntryThen) => boolean,
): Promise<PolicyThen> {
  const momentsMs = [0, -DELAY_MS, DELAY_MS].map((delayMs) => timestampMs + delayMs)
  const states = await Promise.all(momentsMs.map((atMs) => findEntriesThen(snapshot.entries, entity, names, atMs)))
  const found = states.flatMap(({ entries }) => {
    const entry = choose(entries)
    return entry === undefined ? [] : [{ ...entry, kind: 'entry' as const, hasLimit: isLimit(entry) }]
  })
  const entry = found.find((state) => state.hasLimit) ?? found[0]
  return entry ?? { kind: 'unknown', entity, hasHistory: states.some((state) => state.hasHistory) }
}

function overrideNames({ privacy }: LogSnapshot, { client }: ListedEvent): string[] {
  const spelled = privacy === undefined ? [client] : [client, privacy.toCounted(client)]
  return [...new Set(spelled.flatMap(overrideClientsFor))]
}

/** Returns the override that decided, as servers choose it, among those that can have come to this outcome. */
function decidingOverride(entries: readonly EntryThen[], event: ListedEvent): EntryThen | undefined {
  const candidates = entries.flatMap((entry) => {
    const override = toOverride(entry)
    return override !== undefined && isInForce(override, event) ? [{ entry, override }] : []
  })
  const [first] = candidates.toSorted((one, other) => compareOverrides(one.override, other.override))
  return first?.entry
}

function isInForce({ effect, expiresAtMs, pathPattern }: ActiveOverride, event: ListedEvent): boolean {
  const isMeant = event.outcome === 'denied' ? effect === 'deny' : typeof effect === 'object'
  return isMeant && (expiresAtMs === null || expiresAtMs > event.timestampMs) && coversPath(pathPattern, event.path)
}

/** Returns the override that a state of the history describes; undefined where it has no valid one. */
function toOverride({ fields, rowId }: EntryThen): ActiveOverride | undefined {
  const text = (name: string) => String(fields[name] ?? '')
  const { expiresAt } = fields
  try {
    const row = {
      client: text('client'),
      effect: text('effect'),
      algorithm: text('algorithm') || 'fixed_window',
      pathPattern: text('pathPattern'),
      expiresAt: typeof expiresAt === 'number' ? expiresAt : null,
    }
    return { ...parseOverride(row), id: rowId }
  } catch {
    return undefined
  }
}

/** Returns whether a pattern covers a path of the log, as it was received or as the router read it. */
function coversPath(pattern: string, path: string): boolean {
  if (pattern === '') return true
  try {
    const compiled = compiledPattern(pattern)
    return compiled.test(path) || compiled.test(decodeURI(path))
  } catch {
    return false
  }
}

const COUNTS = /(\d+)\s*\//g

/** Returns whether a rate of the state has the limit of the event. A denial has none. */
function hasLimit({ fields }: EntryThen, { outcome, limit }: ListedEvent): boolean {
  if (outcome === 'denied') return true
  return Array.from(rateOf(fields).matchAll(COUNTS), ([, count]) => Number(count)).includes(limit)
}

function rateOf({ rate, effect }: ChangedFields): string {
  return String(rate ?? effect ?? '')
}
