/** Finds what a text may mean beside clients: rules, overrides and bans, paths, and policies that are no rules. */
import { readPage } from '../../../database/list.js'
import type { CodeLimit } from '../../../http/code-limits.js'
import type { Parts } from '../../../plugin/parts.js'
import type { ReportWindow } from '../../../reports/report-window.js'
import { type FoundTraffic, searchTraffic } from '../../../reports/traffic.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { type ListedOverride, overrideList } from '../overrides/list-overrides.js'
import type { PageRoutes } from '../page-routes.js'
import { type FoundRules, findRules } from '../rules/list-rules.js'
import { findRulePages } from '../rules/rule-links.js'

/** The rows of a group on the page that has all groups. */
export const MAX_ROWS = 10
/** The number up to which is counted. */
export const MAX_COUNT = 1_000

/** A policy that is no rule now. */
export interface FoundPolicy {
  readonly name: string
  /** The limit of the app's code; undefined for others. */
  readonly limit?: CodeLimit
  /** The traffic of a rule that was deleted; undefined for others. */
  readonly traffic?: FoundTraffic
}

export interface FoundBeside {
  readonly rules: FoundRules
  /** With the number of all of them, up to `MAX_COUNT`. */
  readonly overrides: { readonly overrides: readonly ListedOverride[]; readonly count: number }
  readonly paths: readonly FoundTraffic[]
  readonly policies: readonly FoundPolicy[]
}

/** The policies that are neither a rule nor a limit of the code. */
const OTHER_POLICIES: readonly FoundPolicy[] = [{ name: 'override' }, { name: 'deny-list' }]

export async function findBeside(routes: PageRoutes<'hook'>, text: string, window: ReportWindow): Promise<FoundBeside> {
  const { database, settings, clock, read } = routes
  const listing = { text, kind: undefined, state: undefined, order: 'newest' } as const
  const list = overrideList(database, settings.privacy, listing, clock.now())
  const [rules, { rows }, traffic] = await Promise.all([
    fromDatabase(findRules(database, text, MAX_ROWS)),
    fromDatabase(readPage(database.dialect, list, { limit: MAX_COUNT })),
    read(searchTraffic({ text, ...window })),
  ])
  const policies = await findPolicies(routes, text, traffic.rules.slice(0, MAX_COUNT))
  const overrides = { overrides: rows.slice(0, MAX_ROWS), count: rows.length }
  return { rules, overrides, paths: traffic.paths, policies }
}

/** @param logged the rules of the log that were found */
async function findPolicies(
  { database, hook }: Pick<Parts, 'database' | 'hook'>,
  text: string,
  logged: readonly FoundTraffic[],
): Promise<readonly FoundPolicy[]> {
  const existing = await findRulePages(
    database,
    logged.map(({ name }) => name),
  )
  const searched = text.toLowerCase()
  const isFound = (name: string) => name.toLowerCase().includes(searched)
  return [
    ...hook
      .codeLimits()
      .filter(({ policy, routes }) => isFound(policy) || routes.some(isFound))
      .map((limit) => ({ name: limit.policy, limit })),
    ...OTHER_POLICIES.filter(({ name }) => isFound(name)),
    ...logged.filter(({ name }) => !existing.has(name)).map((traffic) => ({ name: traffic.name, traffic })),
  ]
}

/** Returns whether a rule, a path or a policy is named exactly as a text. */
export function isNamed(text: string, { rules, paths, policies }: FoundBeside): boolean {
  const searched = text.toLowerCase()
  return [...rules.rules, ...paths, ...policies].some(({ name }) => String(name).toLowerCase() === searched)
}
