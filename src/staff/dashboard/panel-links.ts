import { splitKey } from '../../clients/client.js'
import { clientText, parseOverrideClient } from '../../clients/override-client.js'
import type { CountedClient } from '../../reports/offender-detail.js'

/**
 * Returns the client of an event, as overrides spell it. Its key alone does not identify it: a header, or a function of
 * the host's, can spell another client's address or user, who must not be blocked for it.
 *
 * @param countsByUser whether a rule, or the limit where no rule matched, identifies clients by user
 */
export function toOverrideClient(
  { key, clientIp, userId }: CountedClient,
  countsByUser: (ruleName: string | undefined) => boolean,
): string | undefined {
  const { rule: ruleName, shown: client } = splitKey(key)
  // An address alone has no bar: others behind the address must not be blocked for one of several kinds.
  if (clientIp !== null) return client.includes('|') ? undefined : overrideTextFor(`ip:${clientIp}`)
  if (!client.startsWith('user:')) return undefined
  const isThatUser = userId === null ? countsByUser(ruleName) : client === `user:${userId}`
  return isThatUser ? overrideTextFor(client) : undefined
}

/** Returns the client that all events were counted for; undefined where there are several, or it is unknown. */
export function commonClient(
  events: readonly CountedClient[],
  countsByUser: (ruleName: string | undefined) => boolean,
): string | undefined {
  const [first, ...others] = new Set(events.map((event) => toOverrideClient(event, countsByUser)))
  return others.length === 0 ? first : undefined
}

function overrideTextFor(text: string): string | undefined {
  try {
    return clientText(parseOverrideClient(text))
  } catch {
    return undefined
  }
}
