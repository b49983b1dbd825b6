/**
 * The SQL that reads the columns of an event, also in rows that other writers wrote without `client`, `policy` and
 * `outcome`, which are empty there. No other module handles these rows.
 */
import type { Dialect } from '../database/dialect.js'
import { MAX_RULE_NAME_LENGTH } from './event.js'

/** The `EventOutcome`. A denial is always written, never derived from the other columns. */
export const OUTCOME = `CASE WHEN outcome <> '' THEN outcome
  WHEN allowed = false OR count > "limit" THEN 'over_limit' ELSE 'allowed' END`

/** The policy that decided. */
export const POLICY = `CASE WHEN policy <> '' THEN policy WHEN rule_name <> '' THEN rule_name ELSE 'default' END`

/**
 * Returns the condition that a rule is one of several that applied.
 *
 * @param rule an expression of its name
 */
export function hasApplied(dialect: Dialect, rule: string): string {
  return isAmongRules(dialect, rule, ['+', '-'])
}

/** Returns the condition that a rule is one of several that applied, and refused. */
export function hasRefused(dialect: Dialect, rule: string): string {
  return isAmongRules(dialect, rule, ['-'])
}

function isAmongRules(dialect: Dialect, rule: string, signs: readonly ('+' | '-')[]): string {
  const entries = signs.map((sign) => dialect.contains(`':' || rules || ':'`, `':${sign}' || ${rule} || ':'`))
  // No name is empty or has a colon: a text with one would be compared with several entries.
  return `(rules <> '' AND (${entries.join(' OR ')}) AND ${rule} <> '' AND NOT ${dialect.contains(rule, "':'")})`
}

/** The name of a rule in a row of `besideRows`, cut as columns of names are, and whether the rule refused. */
export const BESIDE = `substr(entry, 2, ${MAX_RULE_NAME_LENGTH})`
export const IS_REFUSED_BESIDE = "substr(entry, 1, 1) = '-'"

/**
 * Returns a table with a row for each rule that applied to an event beside the deciding one, in `entry`.
 *
 * @param events a table, or a select in brackets
 * @param condition of the events
 */
export function besideRows(dialect: Dialect, events: string, condition = 'true'): string {
  return `(SELECT * FROM (
    SELECT event.*, part.value AS entry FROM ${events} AS event CROSS JOIN ${dialect.textParts('event.rules', ':')}
    WHERE event.rules <> ''
  ) AS entries WHERE substr(entry, 1, 1) IN ('+', '-') AND ${BESIDE} NOT IN ('', rule_name) AND ${condition}) AS beside`
}

const SHOWN = 'substr(key, length(rule_name) + 7)'

/** The counted client; empty where the row lacks it. A rule's key has the address or the user behind the name. */
export const CLIENT = `CASE WHEN client <> '' THEN client
  WHEN substr(key, 1, 3) = 'ip:' OR substr(key, 1, 5) = 'user:' THEN key
  WHEN rule_name = '' OR substr(key, 1, length(rule_name) + 6) <> 'rule:' || rule_name || ':' THEN ''
  WHEN substr(${SHOWN}, 1, 5) = 'user:' THEN ${SHOWN}
  WHEN trim(${SHOWN}, '0123456789abcdefABCDEF:./') = '' AND (${SHOWN} LIKE '%.%.%.%' OR ${SHOWN} LIKE '%:%:%')
    THEN 'ip:' || ${SHOWN}
  ELSE '' END`

const BEFORE_SHOWN = `substr(client, 1, CASE WHEN length(client) > length(${SHOWN}) THEN length(client) - length(${SHOWN}) ELSE 0 END)`
const countOf = (character: string, text: string) => `(length(${text}) - length(replace(${text}, '${character}', '')))`

/**
 * The condition that the key is of another client than the event: that of a rule which counts by another kind than the
 * group without a name. The key of the event's client has it without the kind, which ends with a colon.
 */
export const HAS_OTHER_KEY = `rule_name <> '' AND client <> '' AND CASE
  WHEN substr(client, 1, 3) = 'ip:' AND ${SHOWN} = substr(client, 4) OR ${SHOWN} = client THEN false
  WHEN client LIKE '%|%' THEN rules <> '' OR ${countOf('|', 'client')} <> ${countOf('|', SHOWN)}
  WHEN ${BEFORE_SHOWN} || ${SHOWN} <> client THEN true
  WHEN ${BEFORE_SHOWN} IN ('user:', 'header:', 'cookie:') THEN true
  WHEN ${BEFORE_SHOWN} LIKE 'header:%:' OR ${BEFORE_SHOWN} LIKE 'cookie:%:' THEN ${countOf(':', BEFORE_SHOWN)} <> 2
  ELSE ${BEFORE_SHOWN} <> '' AND (${BEFORE_SHOWN} NOT LIKE '%:' OR ${countOf(':', BEFORE_SHOWN)} <> 1) END`

/** The condition of a row that only adds up allowed requests: it has no client, and the pattern of a route as its path. */
export const IS_SUM = `key = ''`

/** Returns whether a row only adds up allowed requests. */
export function isSum({ key }: { readonly key: string }): boolean {
  return key === ''
}

/** A denial is no offence: no total includes it, and it has a count of its own. */
export const IS_DENIED = `outcome = 'denied'`
export const IS_REFUSED = `allowed = false AND outcome <> 'denied'`
export const IS_UNAVAILABLE = `allowed = false AND outcome = 'unavailable'`
/** The condition of events over a limit that does not block, and so let through. */
export const IS_WOULD_BLOCK = `allowed <> false AND (outcome = 'over_limit' OR outcome = '' AND count > "limit")`

/** Returns the number of requests that an event adds, or subtracts, where a condition holds. */
export function countedRequests(condition: string, sign: 1 | -1 = 1): string {
  return `CASE WHEN ${condition} THEN ${sign === 1 ? 'weight' : '-weight'} ELSE 0 END`
}

/** Returns the counts that an event adds, or subtracts. */
export function eventCounts(sign: 1 | -1 = 1): string {
  const counted = (condition: string) => countedRequests(condition, sign)
  return `${counted("outcome <> 'denied'")} AS total, ${counted(IS_REFUSED)} AS blocked,
    ${counted(IS_WOULD_BLOCK)} AS would_block, ${counted(IS_DENIED)} AS denied`
}
