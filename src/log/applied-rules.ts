/** The column `rules` of an event: the rules that applied to a request where these were several. */

/** A rule that applied to a request. */
export interface AppliedRule {
  readonly name: string
  readonly isRefused: boolean
}

/** The longest text: 8 rules, one of each group, of 100 characters each. */
export const MAX_RULES_LENGTH = 815

/** Spells rules as the column has them: `+search:-team`. No name of a rule has a colon. */
export function formatAppliedRules(rules: readonly AppliedRule[]): string {
  return rules.map(({ name, isRefused }) => `${isRefused ? '-' : '+'}${name}`).join(':')
}

const SIGN = /^[+-]/

/** Parses the column. Entries that raw SQL wrote in another form are left out. */
export function parseAppliedRules(text: string): AppliedRule[] {
  return text
    .split(':')
    .filter((entry) => SIGN.test(entry) && entry.length > 1)
    .map((entry) => ({ name: entry.slice(1), isRefused: entry.startsWith('-') }))
}
