import { availableParallelism, cpus } from 'node:os'
import { CLIENTS, CONNECTIONS } from './load.js'
import { LOADED_SERVERS, type Measurement } from './measure.js'
import { BARE, OURS, PEERS, type Row } from './rows.js'

/** A row with its rounds. The n-th rounds of all rows were measured one after the other. */
export interface RowResult {
  readonly row: Row
  readonly rounds: readonly Measurement[]
}

/** The comparisons that the project watches: a row's requests/s as a share of those of the best of other rows. */
const TARGETS: readonly { row: string; to: readonly string[]; least: number }[] = [
  { row: 'memory', to: [BARE], least: 0.95 },
  { row: 'memory', to: [`${PEERS[0]}, memory`], least: 1 },
  { row: 'SQLite', to: [BARE], least: 0.8 },
  { row: 'Redis', to: PEERS.map((peer) => `${peer}, Redis`), least: 1.15 },
  { row: 'PostgreSQL', to: [`${PEERS[1]}, PostgreSQL`], least: 3 },
  { row: 'PostgreSQL + events', to: [`${OURS}, PostgreSQL`], least: 0.85 },
  { row: 'SQLite + events', to: [`${OURS}, SQLite`], least: 0.7 },
  { row: '10,000 rules, paths that repeat', to: [`${OURS}, 1 rule, paths that repeat`], least: 0.92 },
  { row: '10,000 rules, paths that never repeat', to: [`${OURS}, 1 rule, paths that never repeat`], least: 0.92 },
]

/** Returns the lines between the benchmark marks of `docs/operations/sizing.md`. */
export function markdownReport(
  results: readonly RowResult[],
  { seconds, processes }: { readonly seconds: number; readonly processes: number },
): string[] {
  const rounds = results[0]?.rounds.length ?? 0
  const machine = `${availableParallelism()} cores (${cpus()[0]?.model ?? 'unknown'})`
  const bare = results.find(({ row }) => row.name === BARE)
  return [
    `Node.js ${process.versions.node}, ${machine}, shared with the load and the databases; ${processes} process(es), ${Math.min(processes, LOADED_SERVERS)} at a time loaded over ${CONNECTIONS} connections each, ${CLIENTS} clients; medians of ${rounds} round(s) of ${seconds} s.`,
    '',
    '| Server | requests/s | of bare | server µs | over bare | database µs | p99 |',
    '|---|--:|--:|--:|--:|--:|--:|',
    ...results.map((result) => `| ${resultCells(result, result === bare ? undefined : bare).join(' | ')} |`),
    '',
    '| Compared | target | ratio | |',
    '|---|--:|--:|---|',
    ...TARGETS.flatMap(({ row, to, least }) => {
      const result = results.find((other) => other.row.name === `${OURS}, ${row}`)
      const others = results.filter((other) => to.includes(other.row.name))
      if (result === undefined || others.length < to.length) return []
      const ratio = Math.min(...others.map((other) => speedRatio(result, other)))
      const reached = ratio >= least ? 'reached' : 'not reached'
      return `| ${result.row.name} / ${to.join(' or ')} | ≥ ${least} | ${ratio.toFixed(2)} | ${reached} |`
    }),
  ]
}

function resultCells(result: RowResult, bare: RowResult | undefined): string[] {
  const { row, rounds } = result
  const speeds = rounds.map(({ requestsPerSecond }) => requestsPerSecond)
  const spread = ((Math.max(...speeds) - Math.min(...speeds)) / 2 / median(speeds)) * 100
  const wrong = Math.max(...rounds.map(({ refusals }) => refusals))
  const lost = Math.max(...rounds.map(({ lostEvents }) => lostEvents))
  const database = median(rounds.map(({ databaseCpu }) => databaseCpu))
  return [
    `${row.name}${wrong > 0 ? `, ${wrong} WRONG ANSWERS` : ''}${lost > 0 ? `, ${lost} EVENTS LOST` : ''}`,
    `${Math.round(median(speeds)).toLocaleString('en-US')} ± ${Math.round(spread)} %`,
    bare === undefined ? '' : speedRatio(result, bare).toFixed(2),
    median(rounds.map(({ serverCpu }) => serverCpu)).toFixed(1),
    bare === undefined ? '' : paired(result, bare, (round, of) => round.serverCpu - of.serverCpu).toFixed(1),
    Number.isNaN(database) ? '?' : database.toFixed(1),
    `${median(rounds.map(({ p99Ms }) => p99Ms)).toFixed(1)} ms`,
  ]
}

function speedRatio(result: RowResult, other: RowResult): number {
  return paired(result, other, (round, compared) => round.requestsPerSecond / compared.requestsPerSecond)
}

/** Compares round by round, so that a machine that slows down slows both, and returns the median. */
function paired(result: RowResult, other: RowResult, compare: (round: Measurement, of: Measurement) => number): number {
  return median(result.rounds.map((round, index) => compare(round, other.rounds[index] ?? round)))
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other)
  const middle = (sorted.length - 1) / 2
  return ((sorted[Math.floor(middle)] ?? 0) + (sorted[Math.ceil(middle)] ?? 0)) / 2
}
