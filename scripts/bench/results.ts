import type { EventCounts, Measurement } from './measurement.js'
import type { Row } from './row.js'

/** The medians of a row's rounds; failures and counts of events are sums. */
export interface RowResult extends Measurement {
  readonly row: Row
}

export function summarize(row: Row, rounds: readonly Measurement[]): RowResult {
  const events = rounds.flatMap((round) => round.events ?? [])
  return {
    row,
    requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
    p50Ms: median(rounds.map((round) => round.p50Ms)),
    p99Ms: median(rounds.map((round) => round.p99Ms)),
    failures: sum(rounds.map((round) => round.failures)),
    ...(events.length === 0 ? {} : { events: sumOfEvents(events) }),
  }
}

/** Returns a row's requests/s as a share of another row's; undefined when that was not measured. */
export function ratioTo(id: string | undefined, result: RowResult, results: readonly RowResult[]): number | undefined {
  const other = results.find(({ row }) => row.id === id)
  return other === undefined ? undefined : result.requestsPerSecond / other.requestsPerSecond
}

/** Rounds to three decimals; more would be noise. */
export function rounded(ratio: number | undefined): number | null {
  return ratio === undefined ? null : Math.round(ratio * 1_000) / 1_000
}

function sumOfEvents(rounds: readonly EventCounts[]): EventCounts {
  return {
    recorded: sum(rounds.map(({ recorded }) => recorded)),
    dropped: sum(rounds.map(({ dropped }) => dropped)),
    buffered: sum(rounds.map(({ buffered }) => buffered)),
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? 0
  return sorted.length % 2 === 0 ? ((sorted[middle - 1] ?? 0) + upper) / 2 : upper
}
