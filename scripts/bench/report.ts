import { availableParallelism, cpus } from 'node:os'
import { CLIENTS, CONNECTIONS, type Measurement } from './load.js'
import type { Row } from './rows.js'

/** The medians of a row's rounds. */
export interface RowResult extends Measurement {
  readonly id: string
  readonly title: string
}

export function summarize(row: Row, rounds: readonly Measurement[]): RowResult {
  return {
    id: row.id,
    title: row.title,
    requestsPerSecond: median(rounds.map((round) => round.requestsPerSecond)),
    p50Ms: median(rounds.map((round) => round.p50Ms)),
    p99Ms: median(rounds.map((round) => round.p99Ms)),
    failures: rounds.reduce((sum, round) => sum + round.failures, 0),
  }
}

export function markdownTable(results: readonly RowResult[]): string[] {
  const bare = speedOfBare(results)
  return [
    '| Server | requests/s | p50 | p99 | ratio to bare |',
    '|---|---:|---:|---:|---:|',
    ...results.map(({ title, requestsPerSecond, p50Ms, p99Ms }) => {
      const ratio = bare === undefined ? '' : (requestsPerSecond / bare).toFixed(2)
      const speed = Math.round(requestsPerSecond).toLocaleString('en-US')
      return `| ${title} | ${speed} | ${p50Ms.toFixed(1)} ms | ${p99Ms.toFixed(1)} ms | ${ratio} |`
    }),
  ]
}

export function jsonReport(results: readonly RowResult[], rounds: number, seconds: number): object {
  const bare = speedOfBare(results)
  return {
    ...conditions(rounds, seconds),
    rows: results.map(({ id, title, requestsPerSecond, p50Ms, p99Ms, failures }) => ({
      id,
      title,
      requests_per_second: Math.round(requestsPerSecond),
      p50_ms: p50Ms,
      p99_ms: p99Ms,
      ratio: bare === undefined ? null : Math.round((requestsPerSecond / bare) * 1_000) / 1_000,
      failures,
    })),
  }
}

export function conditionsLine(rounds: number, seconds: number): string {
  const { node, cpu, cores } = conditions(rounds, seconds)
  return `Node.js ${node}, ${cores} cores (${cpu}), shared with the load and the databases; ${CONNECTIONS} connections, ${CLIENTS} clients; medians of ${rounds} round(s) of ${seconds} s.`
}

function conditions(rounds: number, seconds: number) {
  const cpu = cpus()[0]?.model ?? 'unknown'
  return {
    node: process.versions.node,
    cpu,
    cores: availableParallelism(),
    connections: CONNECTIONS,
    clients: CLIENTS,
    rounds,
    seconds,
  }
}

function speedOfBare(results: readonly RowResult[]): number | undefined {
  return results.find(({ id }) => id === 'bare')?.requestsPerSecond
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = sorted.length / 2
  const upper = sorted[Math.floor(middle)] ?? 0
  return sorted.length % 2 === 0 ? ((sorted[middle - 1] ?? 0) + upper) / 2 : upper
}
