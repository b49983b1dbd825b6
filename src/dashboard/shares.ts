import type { Breakdown, TrafficCounts } from '../analytics/breakdown.js'
import { formatCount, formatRate, visible } from './format.js'
import { type StackSegment, stack } from './stack.js'

/** A row of a table of traffic by rule, path or method. */
export interface ShareRow {
  readonly name: string
  /** The link to the filtered page; undefined for a row that no filter selects. */
  readonly href: string | undefined
  readonly requests: string
  readonly blocked: string
  readonly would_block: string
  readonly block_rate: string
  readonly segments: readonly StackSegment[]
}

/**
 * Returns the rows of a table: the busiest first, and the sum of all that is not listed in the last one.
 *
 * @param names the labels of two rows: `unnamed` for an empty name, `other` for the sum of what is not listed
 */
export function shareRows(
  { shares, other }: Breakdown,
  names: { readonly unnamed: string; readonly other: string },
  hrefFor: (name: string) => string,
): ShareRow[] {
  const most = Math.max(other.total, ...shares.map(({ total }) => total))
  const rows = shares.map((share) =>
    share.name === ''
      ? shareRow(names.unnamed, undefined, share, most)
      : shareRow(visible(share.name), hrefFor(share.name), share, most),
  )
  return other.total === 0 ? rows : [...rows, shareRow(names.other, undefined, other, most)]
}

function shareRow(name: string, href: string | undefined, counts: TrafficCounts, most: number): ShareRow {
  return {
    name,
    href,
    requests: formatCount(counts.total),
    blocked: formatCount(counts.blocked),
    would_block: formatCount(counts.would_block),
    block_rate: formatRate(counts.total === 0 ? 0 : counts.blocked / counts.total),
    segments: stack(counts, most),
  }
}
