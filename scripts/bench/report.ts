import { availableParallelism, cpus } from 'node:os'
import { countOf } from '../../src/ground/number-text.js'
import { CLIENTS, CONNECTIONS } from './load.js'
import { LOADED_SERVERS, type Measured, type Measurement, median } from './measure.js'
import { BARE, OURS, PEERS, type Row } from './rows.js'

/** A row with its rounds. The n-th rounds of all rows were compared with the same bare servers. */
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
  const bare = results.flatMap((result) => result.rounds.map((round) => round.bare))
  return [
    `Node.js ${process.versions.node}, ${machine}, shared with the load and the databases; ${processes} process(es), ${Math.min(processes, LOADED_SERVERS)} at a time loaded over ${CONNECTIONS} connections each, ${CLIENTS} clients; medians of ${countOf(rounds, 'round')} of ${seconds} s, each in turn with as many of bare Fastify.`,
    '',
    '| Server | requests/s | of bare | server µs | over bare | database µs | p99 |',
    '|---|--:|--:|--:|--:|--:|--:|',
    `| ${measuredCells(BARE, bare, '', '').join(' | ')} |`,
    ...results.map(({ row, rounds }) => {
      const share = median(rounds.map(shareOfBare)).toFixed(2)
      const over = withSpread(rounds.map((round) => round.serverCpu - round.bare.serverCpu))
      return `| ${measuredCells(row.name, rounds, share, over).join(' | ')} |`
    }),
    '',
    '| Compared | target | ratio | |',
    '|---|--:|--:|---|',
    ...TARGETS.flatMap(({ row, to, least }) => {
      const result = results.find((other) => other.row.name === `${OURS}, ${row}`)
      if (result === undefined) return []
      const ratios = to.flatMap((name) => speedRatio(result, name, results) ?? [])
      if (ratios.length < to.length) return []
      const ratio = Math.min(...ratios)
      const reached = ratio >= least ? 'reached' : 'not reached'
      return `| ${result.row.name} / ${to.join(' or ')} | ≥ ${least} | ${ratio.toFixed(2)} | ${reached} |`
    }),
  ]
}

function measuredCells(name: string, rounds: readonly Measured[], share: string, over: string): string[] {
  const speeds = rounds.map(({ requestsPerSecond }) => requestsPerSecond)
  const spread = ((Math.max(...speeds) - Math.min(...speeds)) / 2 / median(speeds)) * 100
  const wrong = Math.max(...rounds.map(({ refusals }) => refusals))
  const lost = Math.max(...rounds.map(({ lostEvents }) => lostEvents))
  const database = median(rounds.map(({ databaseCpu }) => databaseCpu))
  return [
    `${name}${wrong > 0 ? `, ${wrong} WRONG ANSWERS` : ''}${lost > 0 ? `, ${lost} EVENTS LOST` : ''}`,
    `${Math.round(median(speeds)).toLocaleString('en-US')} ± ${Math.round(spread)} %`,
    share,
    median(rounds.map(({ serverCpu }) => serverCpu)).toFixed(1),
    over,
    Number.isNaN(database) ? '?' : database.toFixed(1),
    `${median(rounds.map(({ p99Ms }) => p99Ms)).toFixed(1)} ms`,
  ]
}

/** Returns the median, and the least and the most: `4.6 (4.1 to 5.9)`. */
function withSpread(values: readonly number[]): string {
  const [middle, least, most] = [median(values), Math.min(...values), Math.max(...values)].map((value) =>
    value.toFixed(1),
  )
  return `${middle} (${least} to ${most})`
}

function shareOfBare({ requestsPerSecond, bare }: Measurement): number {
  return requestsPerSecond / bare.requestsPerSecond
}

/** Returns how fast a row is beside another one: the median of their shares of the same bare servers' speed. */
function speedRatio({ rounds }: RowResult, name: string, results: readonly RowResult[]): number | undefined {
  if (name === BARE) return median(rounds.map(shareOfBare))
  const other = results.find(({ row }) => row.name === name)
  if (other === undefined) return undefined
  return median(rounds.map((round, index) => shareOfBare(round) / shareOfBare(other.rounds[index] ?? round)))
}
