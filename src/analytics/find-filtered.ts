import { keysForClient } from './client-keys.js'
import { parseClientSearch } from './client-search.js'
import type { EventFilter, ReportFilter } from './filter.js'
import { clientsInRange } from './find-clients.js'
import { readRuleNames } from './rule-names.js'
import { type LogSnapshot, toLogged } from './window.js'

/** The most clients of a network that a report includes: the busiest. */
const MAX_CLIENTS = 250
/** The key of a rule's counter, which is a spelling of its own. */
const RULE_KEY = /^rule:[^:]+:./s

/** Finds the clients that a filter means: `203.0.113.50` under all rules, `203.0.113.0/24` with its clients. */
export async function findFiltered(snapshot: LogSnapshot, filter: ReportFilter, days: number): Promise<EventFilter> {
  const { key } = filter
  if (key !== undefined && RULE_KEY.test(key)) return { ...filter, key: toLogged(snapshot, key) }
  const search = key === undefined ? undefined : parseClientSearch(key, snapshot.privacy)
  if (search === undefined) return filter
  const [rules, inRange] = await Promise.all([readRuleNames(snapshot, days), clientsInRange(snapshot, search, days)])
  const clients = [...new Set([...search.clients, ...search.networks, ...inRange.slice(0, MAX_CLIENTS)])]
  const keys = new Set([...search.keysFor(rules), ...clients.flatMap((client) => keysForClient(client, rules))])
  return { ...filter, found: { clients, keys: [...keys] } }
}
