import { allRequests, type Breakdown, type TrafficCounts } from '../../reports/breakdown.js'
import type { EffectView } from './change-views.js'
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
  readonly denied: string
  readonly block_rate: string
  readonly segments: readonly StackSegment[]
  /** What a change of a rule did; undefined where there is none. */
  readonly effect: EffectView | undefined
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
  effects: ReadonlyMap<string, EffectView> = new Map(),
): ShareRow[] {
  const most = Math.max(allRequests(other), ...shares.map(allRequests))
  const rows = shares.map((share) =>
    share.name === ''
      ? shareRow(names.unnamed, undefined, share, most)
      : { ...shareRow(visible(share.name), hrefFor(share.name), share, most), effect: effects.get(share.name) },
  )
  return allRequests(other) === 0 ? rows : [...rows, shareRow(names.other, undefined, other, most)]
}

function shareRow(name: string, href: string | undefined, counts: TrafficCounts, most: number): ShareRow {
  return {
    name,
    href,
    requests: formatCount(allRequests(counts)),
    blocked: formatCount(counts.blocked),
    would_block: formatCount(counts.would_block),
    denied: formatCount(counts.denied),
    block_rate: formatRate(counts.total === 0 ? 0 : counts.blocked / counts.total),
    segments: stack(counts, most),
    effect: undefined,
  }
}
