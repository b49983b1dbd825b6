/** Random requests, and what a log has of them. */

import type { Database } from '../../src/database/database.js'
import { MINUTE_MS } from '../../src/ground/time/clock.js'
import type { EventDetail } from '../../src/log/collapsing-buffer.js'
import type { RateLimitEvent } from '../../src/log/event.js'
import { EVENT } from './events.js'
import { fc } from './properties.js'
import { type PlainEvent, readEvents } from './recount.js'

export const COLLAPSED: EventDetail = { allowed: 'collapsed', refused: 'collapsed' }
export const SUMS: EventDetail = { allowed: 'sums', refused: 'collapsed' }

/** Requests of few clients, rules and paths, so that many are alike, at most three minutes before a moment. */
export function requestsBefore(nowMs: number): fc.Arbitrary<RateLimitEvent> {
  return fc
    .record({
      atMs: fc.integer({ min: 0, max: 3 * MINUTE_MS }).map((ageMs) => nowMs - ageMs),
      client: fc.constantFrom('ip:192.0.2.1', 'ip:192.0.2.2', 'user:7'),
      rule: fc.constantFrom('', 'a', 'b'),
      path: fc.constantFrom('/', '/a', `/${'x'.repeat(600)}`, `/${'x'.repeat(601)}`),
      method: fc.constantFrom('GET', 'POST'),
      outcome: fc.constantFrom('allowed', 'over_limit', 'denied', 'unavailable'),
      wouldBe: fc.boolean(),
      rules: fc.constantFrom('', '', '+a:-b'),
      userId: fc.constantFrom(null, 7),
      ipAddress: fc.constantFrom(null, '192.0.2.1'),
    })
    .map(({ atMs, client, rule, wouldBe, outcome, ...event }) => ({
      ...EVENT,
      ...event,
      timestampMs: atMs,
      client,
      key: rule === '' ? client : `rule:${rule}:${client.replace('ip:', '')}`,
      ruleName: rule,
      policy: rule || 'default',
      outcome: outcome as RateLimitEvent['outcome'],
      allowed: outcome === 'allowed' || (outcome === 'over_limit' && wouldBe),
      rules: outcome === 'denied' ? '' : event.rules,
      count: outcome === 'allowed' ? 1 : 9,
    }))
}

/** Returns a request as the hook records it for a log of this detail. */
export function toRecorded(event: RateLimitEvent, { allowed }: EventDetail): RateLimitEvent {
  if (allowed !== 'sums' || event.outcome !== 'allowed') return event
  return { ...event, key: '', client: '', path: '/:id', userId: null, ipAddress: null, count: 0, limit: 0 }
}

/**
 * Returns the requests of a log, without an order, and to the minute: a row has the time of its last request.
 *
 * @param detail with sums, allowed requests have no client, key and path
 */
export async function requestsIn(database: Database, { allowed }: EventDetail): Promise<string[]> {
  const withoutClient = ({ blocked, would_block, denied, ...its }: PlainEvent) =>
    blocked || would_block || denied ? its : { ...its, client: '', key: '', path: '' }
  return (await readEvents(database))
    .map((its) => ({ ...its, atMs: Math.floor(its.atMs / MINUTE_MS) }))
    .map((its) => JSON.stringify(allowed === 'sums' ? withoutClient(its) : its))
    .toSorted()
}

export async function clearLog({ log }: Database): Promise<void> {
  for (const table of ['rate_limit_event', 'rate_limit_event_batch']) {
    await log.execute(`DELETE FROM ${log.dialect.table(table)}`)
  }
}
