/**
 * How the columns of an event read in SQL, also of rows that others wrote without them: `client`, `policy` and `outcome`
 * are empty there. These are the only places that say so.
 */

/** See `EventOutcome`. A denial is written as one, never read from the other columns. */
export const OUTCOME = `CASE WHEN outcome <> '' THEN outcome
  WHEN allowed = false OR count > "limit" THEN 'over_limit' ELSE 'allowed' END`

/** The name of what decided. */
export const POLICY = `CASE WHEN policy <> '' THEN policy WHEN rule_name <> '' THEN rule_name ELSE 'default' END`

const SHOWN = 'substr(key, length(rule_name) + 7)'

/** Who was counted; empty where the row does not say it. A rule's key shows the address or the user behind its name. */
export const CLIENT = `CASE WHEN client <> '' THEN client
  WHEN substr(key, 1, 3) = 'ip:' OR substr(key, 1, 5) = 'user:' THEN key
  WHEN rule_name = '' OR substr(key, 1, length(rule_name) + 6) <> 'rule:' || rule_name || ':' THEN ''
  WHEN substr(${SHOWN}, 1, 5) = 'user:' THEN ${SHOWN}
  WHEN trim(${SHOWN}, '0123456789abcdefABCDEF:./') = '' AND (${SHOWN} LIKE '%.%.%.%' OR ${SHOWN} LIKE '%:%:%')
    THEN 'ip:' || ${SHOWN}
  ELSE '' END`

/** A denial is no offence: it is in no total, and counted by itself. */
export const IS_DENIED = `outcome = 'denied'`
export const IS_REFUSED = `allowed = false AND outcome <> 'denied'`
export const IS_UNAVAILABLE = `allowed = false AND outcome = 'unavailable'`
/** Let through by a limit that does not block, though it was over. */
export const IS_WOULD_BLOCK = `allowed <> false AND (outcome = 'over_limit' OR outcome = '' AND count > "limit")`

/** What an event adds to the counts, or takes from them. */
export function eventCounts(sign: 1 | -1 = 1): string {
  const counted = (condition: string) => `CASE WHEN ${condition} THEN ${sign} ELSE 0 END`
  return `${counted("outcome <> 'denied'")} AS total, ${counted(IS_REFUSED)} AS blocked,
    ${counted(IS_WOULD_BLOCK)} AS would_block, ${counted(IS_DENIED)} AS denied`
}
