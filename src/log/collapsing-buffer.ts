import { detached, MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../ground/storable.js'
import { MINUTE_MS } from '../ground/time/clock.js'
import {
  type AlikeEvents,
  type EventOutcome,
  eventValues,
  MAX_METHOD_LENGTH,
  type RateLimitEvent,
  valuesOfAlike,
} from './event.js'
import type { RecordBuffer } from './record-log.js'
import { MAX_ROWS } from './row-buffer.js'

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
  /** The text that finds it; undefined for a row of one event. */
  readonly text: string | undefined
  /** Whether it was taken, and stands for no further event. */
  isTaken: boolean
  /** The JSON of the first event's values, cut to the table's lengths. */
  readonly first: string
}

/**
 * Events that wait to be written, of which those that are alike are one row: the same client, key, policy, rules, method,
 * path, outcome, user, addresses and minute. The row has the time, the count and the limit of the last one.
 */
export class CollapsingBuffer implements RecordBuffer<RateLimitEvent> {
  readonly #detail: EventDetail
  /** The last row of each text: all that events have in common is in the text, so that no client can make rows share one. */
  readonly #found = new Map<string, Row>()
  #rows: Row[] = []
  #count = 0
  /** The rows that were taken last, which may be under way. */
  #taken: readonly Row[] = []

  constructor(detail: EventDetail) {
    this.#detail = detail
  }

  get length(): number {
    return this.#rows.length
  }

  get count(): number {
    return this.#count
  }

  get firstMs(): number | undefined {
    const [row] = this.#rows
    // The values begin with the time.
    return row && Number.parseInt(row.first.slice(1), 10)
  }

  has(recorded: RateLimitEvent): boolean {
    const event = bounded(recorded)
    return this.#isCollapsed(event) && this.#found.has(textFor(event))
  }

  push(recorded: RateLimitEvent): void {
    const event = bounded(recorded)
    this.#count++
    if (!this.#isCollapsed(event)) {
      this.#rows.push(newRow(event))
      return
    }
    const text = textFor(event)
    const row = this.#found.get(text)
    if (row === undefined || row.isTaken) {
      const kept = detached(text)
      const added = newRow(event, kept)
      this.#found.set(kept, added)
      this.#rows.push(added)
      return
    }
    row.weight++
    // A clock may have been set back meanwhile.
    if (event.timestampMs < row.timestampMs) return
    row.timestampMs = event.timestampMs
    row.count = event.count
    row.limit = event.limit
  }

  take() {
    const { firstMs } = this
    this.#forgetTaken()
    if (firstMs === undefined) return undefined
    this.#taken = this.#rows.splice(0, MAX_ROWS)
    const rows = this.#taken.map((row) => {
      row.isTaken = true
      this.#count -= row.weight
      return row.weight === 1 ? row.first : JSON.stringify(valuesOfAlike(JSON.parse(row.first), row))
    })
    return { rows, firstMs }
  }

  /** Rows that were taken before are settled by now. */
  #forgetTaken(): void {
    for (const { text } of this.#taken) {
      if (text !== undefined && this.#found.get(text)?.isTaken) this.#found.delete(text)
    }
    this.#taken = []
  }

  #isCollapsed({ outcome }: RateLimitEvent): boolean {
    const { allowed, refused } = this.#detail
    return (outcome === 'allowed' ? allowed : refused) !== 'each'
  }
}

/** Returns an event with no longer texts than the log has: clients choose them, and they must not fill the memory. */
function bounded(event: RateLimitEvent): RateLimitEvent {
  const { key, client, path, method } = event
  const isLong =
    key.length > MAX_KEY_LENGTH ||
    client.length > MAX_KEY_LENGTH ||
    path.length > MAX_PATH_LENGTH ||
    method.length > MAX_METHOD_LENGTH
  if (!isLong) return event
  return {
    ...event,
    key: storable(key, MAX_KEY_LENGTH),
    client: storable(client, MAX_KEY_LENGTH),
    path: storable(path, MAX_PATH_LENGTH),
    method: storable(method, MAX_METHOD_LENGTH),
  }
}

/**
 * Returns a text that all events have that are alike, and no others. Of two texts one after the other the length of the
 * first tells where it ends.
 */
function textFor(event: RateLimitEvent): string {
  const { timestampMs, outcome, allowed, ipAddress, clientIp, userId } = event
  const { method, policy, ruleName, rules, key, client, path } = event
  const minute = Math.floor(timestampMs / MINUTE_MS)
  const lengths = `${method.length} ${policy.length} ${ruleName.length} ${rules.length} ${key.length} ${client.length}`
  const texts = `${method}${policy}${ruleName}${rules}${key}${client}${path}`
  return `${minute} ${outcome} ${allowed} ${userId} ${ipAddress} ${clientIp} ${lengths} ${texts}`
}

function newRow(event: RateLimitEvent, text?: string): Row {
  const { timestampMs, count, limit } = event
  return { timestampMs, count, limit, weight: 1, text, isTaken: false, first: JSON.stringify(eventValues(event)) }
}
