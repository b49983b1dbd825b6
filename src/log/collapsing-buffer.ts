import { MAX_PATH_LENGTH } from '../ground/storable.js'
import { MINUTE_MS } from '../ground/time/clock.js'
import { type AlikeEvents, type EventOutcome, eventValues, type RateLimitEvent, valuesOfAlike } from './event.js'
import type { RecordBuffer } from './record-log.js'

/** How events are kept: a row for each, or one row for all that are alike. Would-be refusals and denials are refusals. */
export interface EventDetail {
  /** `sums` only adds them up, without their clients. */
  readonly allowed: 'each' | 'collapsed' | 'sums'
  readonly refused: 'each' | 'collapsed'
}

/** Returns whether the log has sums of the requests of an outcome, and not their clients. */
export function isSummed({ allowed }: EventDetail, outcome: EventOutcome): boolean {
  return allowed === 'sums' && outcome === 'allowed'
}

interface Row extends AlikeEvents {
  /** The JSON of the first event's values, cut to the table's lengths. */
  readonly first: string
}

/**
 * Events that wait to be written, of which those that are alike are one row: the same client, key, policy, rules, method,
 * path, outcome, user, addresses and minute. The row has the time, the count and the limit of the last one.
 */
export class CollapsingBuffer implements RecordBuffer<RateLimitEvent> {
  readonly #detail: EventDetail
  readonly #rows = new Map<string | number, Row>()
  /** Numbers the events that have a row each. */
  #number = 0
  #firstMs: number | undefined

  constructor(detail: EventDetail) {
    this.#detail = detail
  }

  get length(): number {
    return this.#rows.size
  }

  get firstMs(): number | undefined {
    return this.#firstMs
  }

  has(event: RateLimitEvent): boolean {
    return this.#isCollapsed(event) && this.#rows.has(alikeKey(event))
  }

  push(event: RateLimitEvent): void {
    const { timestampMs, count, limit } = event
    this.#firstMs ??= timestampMs
    const key = this.#isCollapsed(event) ? alikeKey(event) : this.#number++
    const row = this.#rows.get(key)
    if (row === undefined) {
      this.#rows.set(key, { first: JSON.stringify(eventValues(event)), timestampMs, count, limit, weight: 1 })
      return
    }
    row.weight++
    // A clock may have been set back meanwhile.
    if (timestampMs < row.timestampMs) return
    row.timestampMs = timestampMs
    row.count = count
    row.limit = limit
  }

  take() {
    const firstMs = this.#firstMs
    if (firstMs === undefined) return undefined
    const rows = Array.from(this.#rows.values(), (row) =>
      row.weight === 1 ? row.first : JSON.stringify(valuesOfAlike(JSON.parse(row.first), row)),
    )
    this.#rows.clear()
    this.#firstMs = undefined
    return { rows, firstMs }
  }

  #isCollapsed({ outcome }: RateLimitEvent): boolean {
    const { allowed, refused } = this.#detail
    return (outcome === 'allowed' ? allowed : refused) !== 'each'
  }
}

/** Returns a text that only events have in common which are alike. Only the texts at its end may have spaces. */
function alikeKey({ method, outcome, allowed, userId, ipAddress, clientIp, ...event }: RateLimitEvent): string {
  const minute = Math.floor(event.timestampMs / MINUTE_MS)
  const { policy, ruleName, rules, client, key } = event
  // The log cuts longer paths, which must not fill the memory.
  const path = event.path.slice(0, MAX_PATH_LENGTH)
  const lengths = `${policy.length} ${ruleName.length} ${rules.length} ${client.length} ${key.length}`
  return `${minute} ${method} ${outcome} ${allowed} ${userId} ${ipAddress} ${clientIp} ${lengths} ${policy}${ruleName}${rules}${client}${key}${path}`
}
