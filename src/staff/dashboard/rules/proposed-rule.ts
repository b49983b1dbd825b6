/** A rule for the requests of a filter, as the form of the panel shows it first. */

import { RESERVED_NAMES } from '../../../limiter/limit-name.js'
import { parseRate } from '../../../limiter/rate.js'
import type { SuggestedRates } from '../../../reports/preview/suggested-rates.js'
import type { RuleEntry } from '../../../rules/rule-fields.js'

/** The most characters of a pattern, and of a priority's number. */
const MAX_PATTERN_LENGTH = 255
const MAX_PRIORITY = 2_147_483_647
/** The 99th percentile of few clients is the busiest of all, which a new rule is mostly for. */
const PROPOSED_PERCENTILE = 95
/** Short enough for a number behind it, and to be read in a list. */
const MAX_NAME_LENGTH = 60
/** The characters that mean something in RE2. */
const SPECIAL = /[\\^$.|?*+()[\]{}]/g

interface Filtered {
  /** The beginning of the path, as the log has it. */
  readonly path: string | undefined
  readonly method: string | undefined
  /** Undefined where the log cannot be read. */
  readonly suggested: SuggestedRates | undefined
  /** All rules. */
  readonly rules: readonly Pick<RuleEntry, 'name' | 'group' | 'priority' | 'rate'>[]
  /** The names of those that decide about some of the requests now. */
  readonly deciding: ReadonlySet<string>
  readonly routedPath: (received: string) => string
}

/** Returns the fields of the form. Those for which there is no good value are left out, so that the form has its own. */
export function proposeRule({
  path,
  method,
  suggested,
  rules,
  deciding,
  routedPath,
}: Filtered): Record<string, string> {
  const pattern = `^${escapePattern(path === undefined ? '/' : routedPath(path))}`
  // The proposed rule has no group: those of named groups apply beside it.
  const present = rules.filter(({ name, group }) => group === '' && deciding.has(name))
  const priority = Math.max(...present.map((rule) => rule.priority))
  const busiest =
    suggested === undefined || suggested.only_blocked || suggested.only_sums
      ? undefined
      : suggested.per_minute.find(({ percentile }) => percentile === PROPOSED_PERCENTILE)?.rate
  // A rule that comes first must not let more through than those that it comes before.
  const rate = lowestRate([...(busiest === undefined ? [] : [busiest]), ...present.map((rule) => rule.rate)])
  return {
    name: freeName([method?.toLowerCase(), path], new Set(rules.map(({ name }) => name))),
    ...(pattern.length <= MAX_PATTERN_LENGTH && { pathPattern: pattern }),
    ...(method !== undefined && { method }),
    ...(rate !== undefined && { rate }),
    // The rule has to come before those that decide now.
    ...(Number.isFinite(priority) && { priority: String(Math.min(priority + 1, MAX_PRIORITY)) }),
  }
}

/** Returns the rate that lets the fewest requests through over time, of several windows that of the strictest one. */
function lowestRate(rates: readonly string[]): string | undefined {
  const perMs = (rate: string) => {
    const { limit, periodMs, windows = [{ limit, periodMs }] } = parseRate(rate)
    return Math.min(...windows.map((window) => window.limit / window.periodMs))
  }
  return rates.toSorted((one, other) => perMs(one) - perMs(other))[0]
}

/** Returns a pattern that matches a text as it is. */
function escapePattern(text: string): string {
  return text.replace(SPECIAL, '\\$&')
}

/** Returns a name made of the letters of a filter that no rule has: `post-login`, `post-login-2`. */
function freeName(texts: readonly (string | undefined)[], taken: ReadonlySet<string>): string {
  const words = texts.join('-').replace(/[^A-Za-z0-9._]+/g, '-')
  const name = words.slice(0, MAX_NAME_LENGTH).replace(/^-+|-+$/g, '') || 'every-path'
  const first = RESERVED_NAMES.includes(name) ? `${name}-rule` : name
  let free = first
  for (let number = 2; taken.has(free); number++) free = `${first}-${number}`
  return free
}
