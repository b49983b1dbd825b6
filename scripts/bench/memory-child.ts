/** `node --expose-gc memory-child.js <algorithm>`: measures a million clients in a `MemoryStore` for its parent. */
import { randomBytes } from 'node:crypto'
import { type Algorithm, MemoryStore } from '../../src/index.js'

const KEYS = 1_000_000
const TENTH = KEYS / 10

const algorithm: Algorithm | undefined = (
  ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket'] as const
).find((known) => known === process.argv[2])
if (algorithm === undefined) throw new Error(`There is no algorithm ${JSON.stringify(process.argv[2])}`)
const policy = { algorithm, limit: 100, periodMs: 60_000 }

const store = new MemoryStore()
const before = heapUsed()
const heapGrowth: number[] = []
let microseconds = 0
let startedMs = performance.now()
for (let index = 1; index <= KEYS; index++) {
  store.check([{ key: `ip:${randomBytes(4).join('.')}`, policy, cost: 1 }], Date.now())
  if (index % TENTH !== 0) continue
  microseconds = ((performance.now() - startedMs) / TENTH) * 1_000
  heapGrowth.push(heapUsed() - before)
  startedMs = performance.now()
}
process.send?.({
  algorithm,
  keys_seen: KEYS,
  keys_kept: store.size,
  bytes_per_key: Math.round((heapGrowth.at(-1) ?? 0) / store.size),
  heap_growth: heapGrowth,
  microseconds_per_new_key: Math.round(microseconds * 10) / 10,
})

function heapUsed(): number {
  if (globalThis.gc === undefined) throw new Error('Start this with --expose-gc')
  globalThis.gc()
  return process.memoryUsage().heapUsed
}
