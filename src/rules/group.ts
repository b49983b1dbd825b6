/** The groups of rules: of each, the first rule that matches a request applies. */

import type { Field } from '../ground/field.js'
import { asText } from '../ground/storable.js'

/** The most groups, the one without a name among them: a request has a limit of each. */
export const MAX_GROUPS = 8
/** The most groups that have a name. */
export const MAX_NAMED_GROUPS = MAX_GROUPS - 1
const MAX_LENGTH = 30
const NAME = /^(?:[a-z_-][a-z0-9_-]{0,29})?$/

/** The group of a rule; empty for the one without a name. */
export const GROUP = {
  kind: 'text',
  default: '',
  parse: validateGroup,
  tidy: (typed) => typed.trim().toLowerCase(),
  guess: spellGroup,
  schema: { maxLength: MAX_LENGTH, pattern: NAME.source },
  about:
    'In each group the first rule that matches applies, and a request has to pass all of them. Empty: the rule replaces the default limit.',
  help: `Empty: the rule applies instead of the default limit. With a name, such as organisation: a further limit, beside those of other groups. In each group the first rule that matches applies. At most ${MAX_GROUPS} groups, the one without a name among them.`,
  panel: { title: 'Group', group: 'Limit', input: 'text', example: 'organisation' },
} as const satisfies Field

function validateGroup(value: unknown): string {
  const group = asText(value)
  if (NAME.test(group)) return group
  throw new Error(
    `${JSON.stringify(group)} is not a valid group: give at most ${MAX_LENGTH} of a-z, 0-9, - and _, not beginning with a digit, or an empty text for the group without a name`,
  )
}

/** Returns a name that is allowed, with most letters of one that is not. */
function spellGroup(typed: string): string | undefined {
  const name = typed.toLowerCase().replace(/[^a-z0-9_-]+/g, '-')
  return name.replace(/^[-0-9]+|-+$/g, '').slice(0, MAX_LENGTH) || undefined
}

/**
 * Returns the first group that is one too many, and why; undefined where there is none. Groups that were stored before
 * stay, also where raw SQL wrote too many.
 *
 * @param after the groups that a change leaves, in any order, also the one without a name
 */
export function findExtraGroup(
  before: readonly string[],
  after: Iterable<string>,
): { readonly group: string; readonly problem: string } | undefined {
  const named = [...new Set(after)].filter((group) => group !== '').sort()
  const stored = named.filter((group) => before.includes(group))
  const added = named.filter((group) => !before.includes(group))
  const room = Math.max(0, MAX_NAMED_GROUPS - stored.length)
  const group = added[room]
  if (group === undefined) return undefined
  const others = [...stored.slice(0, MAX_NAMED_GROUPS), ...added.slice(0, room)].sort().join(', ')
  return {
    group,
    problem: `${JSON.stringify(group)} would be one group more than the ${MAX_GROUPS} that are allowed: give one of ${others}, or an empty text for the group without a name`,
  }
}
