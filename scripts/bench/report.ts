import { availableParallelism, cpus } from 'node:os'
import { CLIENTS, CONNECTIONS } from './load.js'
import { type RowResult, ratioTo, rounded } from './results.js'
import { targetsOf } from './targets.js'

/** The conditions of a measurement. */
export interface Conditions {
  readonly load: string
  readonly rounds: number
  readonly seconds: number
}

/** Returns the lines of the README between its benchmark marks. */
export function markdownReport(results: readonly RowResult[], conditions: Conditions): string[] {
  const targets = targetsOf(results)
  return [
    conditionsLine(conditions),
    '',
    ...markdownTable(results),
    ...(targets.length === 0 ? [] : ['', '| Compared | ratio |', '|---|---:|']),
    ...targets.map(({ title, ratio }) => `| ${title} | ${ratio.toFixed(2)} |`),
  ]
}

export function markdownTable(results: readonly RowResult[]): string[] {
  return [
    '| Server | requests/s | p50 | p99 | ratio to bare | of the same without events |',
    '|---|---:|---:|---:|---:|---|',
    ...results.map((result) => {
      const { row, requestsPerSecond, p50Ms, p99Ms } = result
      const ratio = ratioTo(row.bare, result, results)?.toFixed(2) ?? ''
      const speed = Math.round(requestsPerSecond).toLocaleString('en-US')
      const cells = [row.title, speed, milliseconds(p50Ms), milliseconds(p99Ms), ratio, eventsCell(result, results)]
      return `| ${cells.join(' | ')} |`
    }),
  ]
}

export function jsonReport(results: readonly RowResult[], conditions: Conditions): object {
  return {
    ...environmentOf(conditions),
    rows: results.map((result) => ({
      id: result.row.id,
      title: result.row.title,
      requests_per_second: Math.round(result.requestsPerSecond),
      p50_ms: result.p50Ms,
      p99_ms: result.p99Ms,
      ratio: rounded(ratioTo(result.row.bare, result, results)),
      ratio_to: result.row.bare,
      ratio_without_events: rounded(ratioTo(result.row.withoutEvents, result, results)),
      failures: result.failures,
      events: result.events ?? null,
    })),
    targets: targetsOf(results).map(({ title, ratio }) => ({ title, ratio: rounded(ratio) })),
  }
}

function conditionsLine(conditions: Conditions): string {
  const { node, cpu, cores, load, rounds, seconds } = environmentOf(conditions)
  return `Node.js ${node}, ${cores} cores (${cpu}), shared with the load (${load}) and the databases; ${CONNECTIONS} connections, ${CLIENTS} clients; medians of ${rounds} round(s) of ${seconds} s.`
}

function environmentOf({ load, rounds, seconds }: Conditions) {
  return {
    node: process.versions.node,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
    load,
    connections: CONNECTIONS,
    clients: CLIENTS,
    rounds,
    seconds,
  }
}

function milliseconds(ms: number): string {
  return `${ms.toFixed(1)} ms`
}

/** Returns the cell about events, which names lost events, since a row that loses them seems fast. */
function eventsCell(result: RowResult, results: readonly RowResult[]): string {
  if (result.events === undefined) return ''
  const ratio = ratioTo(result.row.withoutEvents, result, results)?.toFixed(2)
  const { recorded, dropped } = result.events
  const lost = `${((dropped / Math.max(1, recorded)) * 100).toFixed(1)} % of the events DROPPED`
  return [...(ratio === undefined ? [] : [ratio]), dropped === 0 ? 'no event dropped' : lost].join(', ')
}
