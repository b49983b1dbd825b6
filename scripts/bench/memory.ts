import type { Algorithm } from '../../src/index.js'
import { forkScript, messageFrom } from './measure-row.js'

const ALGORITHMS: readonly Algorithm[] = ['fixed_window', 'sliding_window', 'token_bucket', 'leaky_bucket']

/** The memory and time of one algorithm's counters of a million clients. */
export interface MemoryUse {
  readonly algorithm: Algorithm
  readonly keys_seen: number
  readonly keys_kept: number
  /** Heap per key: the counter, the key itself and its place in the map. */
  readonly bytes_per_key: number
  /** The growth of the heap after each tenth of the keys, in bytes. */
  readonly heap_growth: readonly number[]
  /** The time per new key while the store is full, including the creation of the key. */
  readonly microseconds_per_new_key: number
}

/** Measures each algorithm in a process of its own, in which garbage can be collected on demand. */
export async function memoryReport(): Promise<readonly MemoryUse[]> {
  const measured: MemoryUse[] = []
  for (const algorithm of ALGORITHMS) {
    const child = forkScript('memory-child', [algorithm], {}, ['--expose-gc'])
    measured.push(await messageFrom(child))
  }
  return measured
}

export function memoryTable(measured: readonly MemoryUse[]): string[] {
  return [
    '| Algorithm | keys seen | keys kept | bytes per key | heap after a tenth of the keys | most | after all | per new key when full |',
    '|---|---:|---:|---:|---:|---:|---:|---:|',
    ...measured.map(({ algorithm, keys_seen, keys_kept, bytes_per_key, heap_growth, microseconds_per_new_key }) => {
      const counts = [keys_seen, keys_kept, bytes_per_key].map((count) => count.toLocaleString('en-US'))
      const heap = [heap_growth.at(0) ?? 0, Math.max(...heap_growth), heap_growth.at(-1) ?? 0].map(megabytes)
      return `| ${[algorithm, ...counts, ...heap, `${microseconds_per_new_key} µs`].join(' | ')} |`
    }),
  ]
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`
}
