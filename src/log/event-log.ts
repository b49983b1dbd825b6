import { CollapsingBuffer, type EventDetail } from './collapsing-buffer.js'
import { eventValues, type RateLimitEvent } from './event.js'
import { type RecordBuffer, RecordLog, type RecordLogOptions } from './record-log.js'
import { RowBuffer } from './row-buffer.js'

/** The log of decisions. */
export class EventLog extends RecordLog<RateLimitEvent> {
  /** @param detail how events are kept; a row for each unless given */
  constructor(options: RecordLogOptions, detail?: EventDetail) {
    super(options, detail === undefined ? new EventBuffer() : new CollapsingBuffer(detail))
  }
}

class EventBuffer implements RecordBuffer<RateLimitEvent> {
  /** The JSON of each event's row, cut to the table's lengths, so that hostile requests cannot swell it. */
  readonly #rows = new RowBuffer()

  get length(): number {
    return this.#rows.length
  }

  get firstMs(): number | undefined {
    return this.#rows.firstMs
  }

  get count(): number {
    return this.#rows.length
  }

  has(): boolean {
    return false
  }

  push(event: RateLimitEvent): void {
    this.#rows.push(JSON.stringify(eventValues(event)), event.timestampMs)
  }

  take() {
    return this.#rows.take()
  }
}
