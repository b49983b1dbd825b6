import { MAX_KEY_LENGTH, MAX_PATH_LENGTH, storable } from '../ground/storable.js'
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

/** What requests that are alike have in common, beside what finds their row. */
type Alike = Pick<
  RateLimitEvent,
  'method' | 'outcome' | 'allowed' | 'clientIp' | 'policy' | 'ruleName' | 'rules' | 'client' | 'key'
>

interface Row extends Alike, AlikeEvents {
  readonly minute: number
  /** The text that finds it; undefined for a row of one event. */
  readonly text: string | undefined
  /** Whether it was taken, and stands for no further event. */
  isTaken: boolean
  /** The JSON of the first event's values, cut to the table's lengths. */
  readonly first: string
  /** An earlier row that the same text finds. */
  next: Row | undefined
}

/**
 * Events that wait to be written, of which those that are alike are one row: the same client, key, policy, rules, method,
 * path, outcome, user, addresses and minute. The row has the time, the count and the limit of the last one.
 */
export class CollapsingBuffer implements RecordBuffer<RateLimitEvent> {
  readonly #detail: EventDetail
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
    return this.#isCollapsed(event) && findAlike(this.#found.get(textFor(event)), event) !== undefined
  }

  push(recorded: RateLimitEvent): void {
    const event = bounded(recorded)
    this.#count++
    if (!this.#isCollapsed(event)) {
      this.#rows.push(newRow(event))
      return
    }
    const text = textFor(event)
    const found = this.#found.get(text)
    const row = findAlike(found, event)
    if (row === undefined || row.isTaken) {
      const kept = detached(text)
      const added = newRow(event, kept, found)
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
      if (text === undefined) continue
      let row = this.#found.get(text)
      if (row?.isTaken) this.#found.delete(text)
      // What follows a row is older.
      while (row?.next !== undefined && !row.next.isTaken) row = row.next
      if (row !== undefined) row.next = undefined
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
 * Returns a text by which the rows of an event are found: what clients can vary without a bound, so that few rows have
 * the same.
 */
function textFor({ key, path, ipAddress, userId }: RateLimitEvent): string {
  return `${key} ${path} ${ipAddress} ${userId}`
}

/** Returns a copy of a text: a part of a long one would keep all of it, such as a path that is cut, or a URL without its query. */
function detached(text: string): string {
  // The slice is one of a new text, whose beginning nothing else has.
  return ` ${text}`.slice(1)
}

function findAlike(first: Row | undefined, event: RateLimitEvent): Row | undefined {
  const minute = Math.floor(event.timestampMs / MINUTE_MS)
  for (let row = first; row !== undefined; row = row.next) {
    if (
      row.minute === minute &&
      row.outcome === event.outcome &&
      row.allowed === event.allowed &&
      row.method === event.method &&
      row.policy === event.policy &&
      row.ruleName === event.ruleName &&
      row.rules === event.rules &&
      row.client === event.client &&
      row.key === event.key &&
      row.clientIp === event.clientIp
    ) {
      return row
    }
  }
  return undefined
}

function newRow(event: RateLimitEvent, text?: string, next?: Row): Row {
  const { timestampMs, count, limit, method, outcome, allowed, clientIp, policy, ruleName, rules, client, key } = event
  return {
    method,
    outcome,
    allowed,
    clientIp: clientIp === null ? null : detached(clientIp),
    policy,
    ruleName,
    rules,
    client: detached(client),
    key: detached(key),
    timestampMs,
    count,
    limit,
    weight: 1,
    minute: Math.floor(timestampMs / MINUTE_MS),
    text,
    isTaken: false,
    first: JSON.stringify(eventValues(event)),
    next,
  }
}
