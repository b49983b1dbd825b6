import { isIP } from 'node:net'
import { DAY_MS } from '../clock.js'
import { clientText, parseOverrideClient } from '../rules/override.js'

/** How long an override holds that a link proposes: long enough to look into the matter. */
const PROPOSED_MS = DAY_MS
/** What "Limit this client" proposes. */
const PROPOSED_RATE = '10/m'
/** The key of a rule's counter; names of rules have no colon. */
const RULE_KEY = /^rule:[^:]*:(.*)$/s

/** Where the panel goes on with a client. */
export interface PanelLinks {
  /** Its events. */
  readonly events: string
  /** A new override, filled in; undefined for a client that no override can name: one told apart by a header. */
  readonly block?: string
  readonly limit?: string
}

/**
 * @param panel the panel's root path
 * @param key of the client, as the event log has it
 */
export function panelLinks(panel: string, key: string, nowMs: number): PanelLinks {
  const events = `${panel}/resources/events?${new URLSearchParams({ 'filters.key': key })}`
  const client = clientOf(key)
  if (client === undefined) return { events }
  const expiresAt = new Date(nowMs + PROPOSED_MS).toISOString()
  const href = (effect: string) =>
    `${panel}/resources/overrides/actions/new?${new URLSearchParams({ client, effect, expiresAt })}`
  return { events, block: href('deny'), limit: href(PROPOSED_RATE) }
}

/** The client of an event's key, as overrides spell it. */
function clientOf(key: string): string | undefined {
  const [, ofRule] = RULE_KEY.exec(key) ?? []
  const isAddress = ofRule !== undefined && isIP(ofRule.replace(/\/\d+$/, '')) !== 0
  const text = isAddress ? `ip:${ofRule}` : (ofRule ?? key)
  try {
    return clientText(parseOverrideClient(text))
  } catch {
    return undefined
  }
}
