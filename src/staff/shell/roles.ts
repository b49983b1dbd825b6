/** The rights of each role: the one table that the API, the dashboard and the panel obey. */
import { fieldNames } from '../../rules/description.js'
import { ActionDeniedError } from './staff-errors.js'

/** The roles of staff, each of which may do what those before it may. */
export const STAFF_ROLES = ['viewer', 'operator', 'admin'] as const
export type StaffRole = (typeof STAFF_ROLES)[number]

/** The role of programs that check requests, which may do nothing else. */
export const CHECKER = 'checker'

/** The roles of tokens. */
export const TOKEN_ROLES = [...STAFF_ROLES, CHECKER] as const
export type TokenRole = (typeof TOKEN_ROLES)[number]

interface DescribedRight {
  /** The lowest role that has it. */
  readonly from: StaffRole
  /** The action that it lets staff do, after "may". */
  readonly about: string
}

/** The rights, and who has them. */
export const RIGHTS = {
  read: {
    from: 'viewer',
    about: 'read rules, overrides, history, events, reports and health; preview, explain, compare a file',
  },
  writeOverrides: {
    from: 'operator',
    about: 'create, change, end and import overrides, and revert their changes',
  },
  resetCounters: { from: 'operator', about: 'reset counters' },
  testAlerts: { from: 'operator', about: 'send test messages through the channels of alerts' },
  switchRules: { from: 'operator', about: 'enable and disable rules' },
  writeRules: { from: 'admin', about: 'create, change, delete and import rules, and revert their changes' },
  writeTokens: { from: 'admin', about: 'see, create and revoke API tokens' },
} as const satisfies Readonly<Record<string, DescribedRight>>

export type Right = keyof typeof RIGHTS

/** Returns the role of a text; undefined for another text. */
export function toRole(value: unknown): StaffRole | undefined {
  return STAFF_ROLES.find((role) => role === value)
}

/** Returns the role of a token's text; undefined for another text. */
export function toTokenRole(value: unknown): TokenRole | undefined {
  return TOKEN_ROLES.find((role) => role === value)
}

/** Returns the rights of a role. */
export function rightsOf(role: StaffRole): readonly Right[] {
  return fieldNames(RIGHTS).filter((right) => mayDo(role, right))
}

/** Returns whether a role has a right. */
export function mayDo(role: StaffRole, right: Right): boolean {
  return STAFF_ROLES.indexOf(role) >= STAFF_ROLES.indexOf(RIGHTS[right].from)
}

/** Returns the right to import a document: a list that it lacks stays as it is. */
export function importRight(document: unknown): Right {
  const hasNoRules = typeof document === 'object' && document !== null && Reflect.get(document, 'rules') === undefined
  return hasNoRules ? 'writeOverrides' : 'writeRules'
}

/** @throws ActionDeniedError when a role lacks a right */
export function requireRight(role: StaffRole, right: Right): void {
  if (mayDo(role, right)) return
  const { from, about } = RIGHTS[right]
  throw new ActionDeniedError(`The role ${role} may not ${about}: this needs the role ${from}.`)
}
