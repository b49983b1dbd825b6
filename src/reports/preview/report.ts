import { countOf, formatCount, formatRate } from '../../ground/number-text.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import type { Rule } from '../../rules/rule.js'
import { shownKey, UNCOVERED, type UncoveredReason, type UnknownFact } from './clients.js'
import type { Replay, Tally } from './replay.js'

/** The report on what a rule would have done to the recorded requests. */
export interface RulePreview {
  /** The candidate's name. */
  readonly rule: string
  /** The result in a sentence, such as `2,718 of 54,732 requests matched; 5.0% of these would have been refused, from 12 clients.` */
  readonly sentence: string
  readonly hours: number
  /** The window: ISO 8601, UTC; its end is now. */
  readonly since: string
  readonly until: string
  /** Recorded requests in the window. */
  readonly events: number
  readonly first_event: string | null
  readonly last_event: string | null
  /**
   * Requests to which the rule would have applied: the first active one of its group by priority, then name, that covers
   * them, where no override decides.
   */
  readonly matched: number
  /** Matched requests over the rule's limit, whether it blocks or not, and not refused by a limit of another group. */
  readonly over_limit: number
  /** Matched requests that it would have refused: `over_limit`, or 0 for a rule that does not block. */
  readonly would_refuse: number
  /** The clients of these requests over the limit. */
  readonly over_limit_clients: number
  /** Matched requests that were refused when they were recorded, by any limit. */
  readonly refused_then: number
  /** Requests let through then and refused by the rule. Uncovered requests are in neither of these two. */
  readonly newly_refused: number
  /** Requests refused then, by no limit of another group, and let through by the rule. */
  readonly newly_allowed: number
  /**
   * Requests that could not be replayed. They are part of `matched`, unless their path was cut, or a condition could not
   * be decided.
   */
  readonly uncovered: {
    readonly count: number
    /** The share of the requests that the rule decides, or may decide: 0 to 1, unrounded. */
    readonly share: number
    /** The number of requests per reason; a reason that never occurred is absent. */
    readonly reasons: Readonly<Partial<Record<UncoveredReason, number>>>
  }
  /** What rules read of uncovered requests that is not known: the most frequent first, at most 100. */
  readonly unknown: readonly PreviewUnknown[]
  /** Every hour of the window, by the clock in UTC. The first and the last hour are only partly in it. */
  readonly by_hour: readonly PreviewHour[]
  /** The most affected keys, spelled as in the rule's events: by `over_limit`, then `matched`; at most 20. */
  readonly top_keys: readonly PreviewKey[]
  /** Whether the log has every request of the window and of the warm-up before it, as far as can be known. */
  readonly complete: boolean
  /** The reasons why it is not complete. */
  readonly gaps: readonly string[]
  /** Further limitations of the numbers. */
  readonly notes: readonly string[]
}

/** A fact that a rule reads, and that is not known of some requests. */
export interface PreviewUnknown extends UnknownFact {
  /** The number of these requests. */
  readonly requests: number
}

export interface PreviewCounts {
  readonly matched: number
  readonly over_limit: number
  readonly would_refuse: number
  readonly refused_then: number
}

export interface PreviewHour extends PreviewCounts {
  /** The start of the hour: ISO 8601, UTC. */
  readonly hour: string
}

export interface PreviewKey extends PreviewCounts {
  readonly key: string
}

interface PreviewFindings {
  readonly rule: Rule
  readonly hours: number
  readonly sinceMs: number
  readonly untilMs: number
  /** The time from which events were replayed, to warm up. */
  readonly fromMs: number
  /** The time of the oldest event in the log. */
  readonly oldestMs: number | null
  readonly replayed: Replay
  /** The number of overrides that let clients through for a part of that time, and no longer do. */
  readonly endedPasses: number
  readonly gaps: readonly string[]
  readonly notes: readonly string[]
}

const MAX_KEYS = 20
/** The number of rules of a higher priority that the notes name. */
const NAMED_RULES = 3
/** The number of unknown facts that the sentence names. */
const NAMED_FACTS = 3
/** Of these nobody knows whether the rule is for them. */
const UNMATCHED: readonly UncoveredReason[] = ['path_cut', 'only_sums', 'condition_not_logged']
/** These the rule would not have decided in any case. */
const DECIDED: readonly UncoveredReason[] = ['deny_list', 'too_long']

export function describePreview(findings: PreviewFindings): RulePreview {
  const { rule, hours, sinceMs, untilMs, replayed } = findings
  const uncovered = describeUncovered(replayed)
  const unknown = [...replayed.unknown.values()].sort((a, b) => b.requests - a.requests)
  const gaps = [...logGaps(findings), ...findings.gaps]
  const total = counts(replayed.total, rule)
  const over_limit_clients = countOverLimit(replayed)
  const firstHourMs = Math.floor(sinceMs / HOUR_MS) * HOUR_MS
  return {
    rule: rule.name,
    sentence: previewSentence(
      { events: replayed.events, ...total, over_limit_clients, ...unsaidOf(replayed), unknown },
      rule.group !== '',
    ),
    hours,
    since: isoTime(sinceMs),
    until: isoTime(untilMs),
    events: replayed.events,
    first_event: replayed.firstMs === null ? null : isoTime(replayed.firstMs),
    last_event: replayed.lastMs === null ? null : isoTime(replayed.lastMs),
    ...total,
    over_limit_clients,
    newly_refused: replayed.newlyRefused,
    newly_allowed: replayed.newlyAllowed,
    uncovered,
    unknown,
    by_hour: replayed.hours.map((tally, index) => ({
      hour: isoTime(firstHourMs + index * HOUR_MS),
      ...counts(tally, rule),
    })),
    top_keys: topKeys(replayed, rule),
    complete: gaps.length === 0,
    gaps,
    notes: [...describeNotes(findings), ...findings.notes],
  }
}

function counts({ matched, overLimit, refusedThen }: Tally, { block }: Rule): PreviewCounts {
  return { matched, over_limit: overLimit, would_refuse: block ? overLimit : 0, refused_then: refusedThen }
}

function countOverLimit({ clients }: Replay): number {
  let count = 0
  for (const { overLimit } of clients.values()) if (overLimit > 0) count++
  return count
}

function describeUncovered({ uncovered, total }: Replay): RulePreview['uncovered'] {
  let count = 0
  for (const times of uncovered.values()) count += times
  const unmatched = sumOf(uncovered, UNMATCHED)
  const candidates = total.matched + unmatched
  return { count, share: candidates === 0 ? 0 : count / candidates, reasons: Object.fromEntries(uncovered) }
}

function sumOf(uncovered: Replay['uncovered'], reasons: readonly UncoveredReason[]): number {
  return reasons.reduce((sum, reason) => sum + (uncovered.get(reason) ?? 0), 0)
}

/** Returns how many requests nothing can be said about, since something is not known of them. */
function unsaidOf({ uncovered }: Replay): Pick<PreviewTotals, 'unsaid' | 'unsaid_matched'> {
  const unsaid = sumOf(
    uncovered,
    [...uncovered.keys()].filter((reason) => !DECIDED.includes(reason)),
  )
  return { unsaid, unsaid_matched: unsaid - sumOf(uncovered, UNMATCHED) }
}

function topKeys({ clients }: Replay, rule: Rule): PreviewKey[] {
  let top: PreviewKey[] = []
  for (const [client, tally] of clients) {
    if (tally.matched === 0) continue
    top.push({ key: shownKey(client, rule.name), ...counts(tally, rule) })
    // Sorted now and then, so that no copy of all clients is made.
    if (top.length >= 50 * MAX_KEYS) top = top.sort(byHits).slice(0, MAX_KEYS)
  }
  return top.sort(byHits).slice(0, MAX_KEYS)
}

function byHits(a: PreviewKey, b: PreviewKey): number {
  return b.over_limit - a.over_limit || b.matched - a.matched || (a.key < b.key ? -1 : 1)
}

/** Returns what the log itself reveals about requests that it lacks. */
function logGaps({ oldestMs, fromMs, sinceMs, replayed, endedPasses }: PreviewFindings): string[] {
  if (oldestMs === null) return ['The log is empty.']
  const gaps: string[] = []
  if (oldestMs > sinceMs) {
    gaps.push(`The log begins ${isoTime(oldestMs)}, after the window does: earlier requests are not in it.`)
  } else if (oldestMs > fromMs) {
    gaps.push(
      `The log begins ${isoTime(oldestMs)}, too late to warm up the counters from ${isoTime(fromMs)} on: some refusals of the window's first moments may be missing.`,
    )
  }
  if (endedPasses > 0) {
    gaps.push(
      `${countOf(endedPasses, 'override')} that let clients through ended since ${isoTime(fromMs)}: the earlier requests of these clients are not in the log.`,
    )
  }
  if (replayed.events > 0 && replayed.withinLimit === 0) {
    gaps.push("Every request in the log was refused, or would have been: it seems that logEvents was 'blocked'.")
  }
  return gaps
}

function describeNotes({ rule, replayed }: PreviewFindings): string[] {
  const notes: string[] = []
  if (!rule.block) notes.push('The rule has block: false: it would have counted requests, and refused none.')
  if (replayed.banned > 0) {
    notes.push(
      `${countOf(replayed.banned, 'client')} would have been banned: the requests that a ban denies are replayed as if there was none.`,
    )
  }
  const times = describeTimes(rule)
  if (times !== '') notes.push(`The rule is in force ${times}: requests at other times are left out.`)
  if (replayed.assumedAnonymous > 0) {
    notes.push(
      `${countOf(replayed.assumedAnonymous, 'request')} without a user in the log ${replayed.assumedAnonymous === 1 ? 'is' : 'are'} counted by address: only users whose id is an integer are in it.`,
    )
  }
  for (const [name, times] of [...replayed.taken].sort(([, one], [, other]) => other - one).slice(0, NAMED_RULES)) {
    notes.push(
      `${countOf(times, 'request')} that ${times === 1 ? 'matches is' : 'match are'} decided by rule ${JSON.stringify(name)}, which comes first, and left out.`,
    )
  }
  if (replayed.overridden > 0) {
    notes.push(
      `${countOf(replayed.overridden, 'request')} ${replayed.overridden === 1 ? 'is' : 'are'} decided by overrides that are in force now, and left out. To try a rule on the requests of a client, preview it before the client is blocked, or end the block first.`,
    )
  }
  if (replayed.assumedFree > 0) {
    notes.push(
      `${countOf(replayed.assumedFree, 'request')} without an address or a user in the log ${replayed.assumedFree === 1 ? 'is' : 'are'} assumed to match no override.`,
    )
  }
  for (const [reason, times] of replayed.uncovered)
    notes.push(`Not replayed: ${countOf(times, 'request')} ${UNCOVERED[reason]}.`)
  return notes
}

function describeTimes({ startsAtMs, endsAtMs }: Rule): string {
  const from = startsAtMs === null ? [] : [`from ${isoTime(startsAtMs)}`]
  const until = endsAtMs === null ? [] : [`until ${isoTime(endsAtMs)}`]
  return [...from, ...until].join(' ')
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}

interface PreviewTotals {
  readonly events: number
  readonly matched: number
  readonly over_limit: number
  readonly would_refuse: number
  readonly over_limit_clients: number
  /** The requests that nothing can be said about. */
  readonly unsaid: number
  /** Those of them that matched. */
  readonly unsaid_matched: number
  /** The reasons, the most frequent first. */
  readonly unknown: readonly PreviewUnknown[]
}

/**
 * Returns what a rule would have done, in the sentences that the panel, the command and the API have in common. What they
 * cannot say comes first.
 *
 * @param isFurther whether the rule limits requests beside whatever else does
 */
export function previewSentence(totals: PreviewTotals, isFurther: boolean): string {
  const { events, matched, unsaid, unsaid_matched } = totals
  if (events === 0) return 'The log has no requests in this time.'
  if (unsaid === 0) return saidSentence(totals, events, matched, isFurther)
  const unsaidSentence = describeUnsaid(totals)
  if (unsaid >= events) return unsaidSentence
  return `${unsaidSentence} ${saidSentence(totals, events - unsaid, matched - unsaid_matched, isFurther)}`
}

function describeUnsaid({ events, unsaid, unknown }: PreviewTotals): string {
  const all = events === 1 ? 'the only request' : `any of ${formatCount(events)} requests`
  const about = unsaid >= events ? all : `${formatCount(unsaid)} of ${formatCount(events)} requests`
  const named = unknown.slice(0, NAMED_FACTS)
  const reasons = named.map(({ rule, field, lacks, requests }) => {
    const times = requests === unsaid ? '' : ` (${formatCount(requests)})`
    const lacking = lacks === 'log' ? 'the log does not have' : 'this process does not know'
    return `rule ${JSON.stringify(rule)} reads ${field}, which ${lacking}${times}`
  })
  return `Nothing can be said about ${about}${reasons.length === 0 ? '' : `: ${reasons.join('; ')}`}.`
}

/** Describes the requests that something can be said about. */
function saidSentence(
  { over_limit, would_refuse, over_limit_clients: clients, unsaid }: PreviewTotals,
  events: number,
  matched: number,
  isFurther: boolean,
): string {
  const which = unsaid > 0 ? 'other ' : ''
  const requests = events === 1 ? `1 ${which}request` : `${formatCount(events)} ${which}requests`
  if (matched === 0) {
    if (events === 1) return `The ${unsaid > 0 ? 'other' : 'only'} request did not match.`
    return `None of ${unsaid > 0 ? 'the ' : ''}${requests} matched.`
  }
  const found = `${formatCount(matched)} of ${unsaid > 0 ? 'the ' : ''}${requests} matched`
  const inAddition = isFurther ? ' in addition' : ''
  if (over_limit === 0) return `${found}; none of these would have been refused${inAddition}.`
  const from = clients === 1 ? '1 client' : `${formatCount(clients)} clients`
  const done = would_refuse === 0 ? 'would be refused without block: false' : 'would have been refused'
  return `${found}; ${formatRate(over_limit / matched)} of these ${done}${inAddition}, from ${from}.`
}
