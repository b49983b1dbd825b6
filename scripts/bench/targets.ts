import { OUR_REFUSING_ROWS, OUR_ROWS } from './our-rows.js'
import { type RowResult, ratioTo } from './results.js'
import { RULE_ROWS } from './rule-rows.js'

/** A comparison between two rows that the project watches. */
export interface Target {
  readonly title: string
  readonly ratio: number
}

const COMPARED: readonly { title: string; id: string; to: string }[] = [
  {
    title: 'fastify-smart-ratelimit, PostgreSQL / rate-limiter-flexible, PostgreSQL',
    id: 'ours-postgresql',
    to: 'rate-limiter-flexible-postgresql',
  },
  {
    title: 'fastify-smart-ratelimit, Redis / @fastify/rate-limit, Redis',
    id: 'ours-redis',
    to: 'fastify-rate-limit-redis',
  },
  { title: 'events / no events, SQLite', id: 'ours-sqlite-events', to: 'ours-sqlite' },
  { title: 'events / no events, PostgreSQL', id: 'ours-postgresql-events', to: 'ours-postgresql' },
  { title: '1,000 rules / 1 rule, paths that repeat', id: 'ours-rules-1000', to: 'ours-rules-1' },
  { title: '10,000 rules / 1 rule, paths that repeat', id: 'ours-rules-10000', to: 'ours-rules-1' },
  { title: '1,000 rules / 1 rule, paths that never do', id: 'ours-rules-1000-new', to: 'ours-rules-1-new' },
  { title: '10,000 rules / 1 rule, paths that never do', id: 'ours-rules-10000-new', to: 'ours-rules-1-new' },
]

/** Returns the comparisons whose rows were measured. */
export function targetsOf(results: readonly RowResult[]): readonly Target[] {
  const speeds = COMPARED.flatMap(({ title, id, to }) => {
    const result = results.find(({ row }) => row.id === id)
    const ratio = result && ratioTo(to, result, results)
    return ratio === undefined ? [] : [{ title: `requests/s: ${title}`, ratio }]
  })
  const [worst] = latencies(results).sort((a, b) => b.ratio - a.ratio)
  return worst === undefined ? speeds : [...speeds, worst]
}

/** Compares the p99 of our answers with that of bare Fastify. */
function latencies(results: readonly RowResult[]): Target[] {
  const ours = new Set([...OUR_ROWS, ...RULE_ROWS, ...OUR_REFUSING_ROWS])
  return results.flatMap(({ row, p99Ms }) => {
    const bare = results.find((other) => other.row.id === row.bare)
    if (bare === undefined || !ours.has(row)) return []
    return [{ title: `p99: the worst of fastify-smart-ratelimit (${row.id}) / bare`, ratio: p99Ms / bare.p99Ms }]
  })
}
