import type { Clock } from '../../src/ground/time/clock.js'

export interface FakeClock extends Clock {
  advance(ms: number): void
}

/** A clock that stands still until it is told to move. Starts at 2026-01-15T12:00:00Z unless told otherwise. */
export function fakeClock(startMs: number = Date.UTC(2026, 0, 15, 12)): FakeClock {
  let nowMs = startMs
  return {
    now: () => nowMs,
    advance(ms) {
      nowMs += ms
    },
  }
}
