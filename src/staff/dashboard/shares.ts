import { allRefused, allRequests, type Breakdown, type TrafficCounts } from '../../reports/breakdown.js'
import type { PathBreakdown, PathShare } from '../../reports/path-breakdown.js'
import type { EffectView } from './change-views.js'
import { countWords, formatCount, formatRate, visible } from './format.js'
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
  /** The effect of a change of a rule; undefined where there is none. */
  readonly effect: EffectView | undefined
}

/** A row of the table by path: a path, or a route that opens to show its paths. */
export interface PathRow extends ShareRow {
  /** The paths of the route; undefined for a path by itself. */
  readonly members?: readonly { readonly name: string; readonly href: string; readonly counts: string }[]
}

interface ShareOptions {
  /** The effects of changes, by the name of their row. */
  readonly effects?: ReadonlyMap<string, EffectView>
  /** Whether the rows are those of refusals: bars have nothing else. */
  readonly onlyRefused?: boolean | undefined
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
  { effects = new Map(), onlyRefused = false }: ShareOptions = {},
): ShareRow[] {
  const measure = onlyRefused ? allRefused : allRequests
  const most = Math.max(measure(other), ...shares.map(measure))
  const shareRow = (name: string, href: string | undefined, counts: TrafficCounts) =>
    toShareRow(name, href, counts, stack(onlyRefused ? limitToRefused(counts) : counts, most))
  const rows = shares.map((share) =>
    share.name === ''
      ? shareRow(names.unnamed, undefined, share)
      : { ...shareRow(visible(share.name), hrefFor(share.name), share), effect: effects.get(share.name) },
  )
  return measure(other) === 0 ? rows : [...rows, shareRow(names.other, undefined, other)]
}

/** Returns the rows of the table by path. */
export function pathRows(by_path: PathBreakdown, hrefFor: (path: string) => string, options: ShareOptions): PathRow[] {
  const rows = shareRows(by_path, { unnamed: 'no path', other: 'other paths' }, hrefFor, options)
  return rows.map((row, index) => {
    const share = by_path.shares[index]
    return share?.paths === undefined ? row : { ...row, href: undefined, members: pathsOf(share, share.paths, hrefFor) }
  })
}

/** Returns the paths of a route. Those that are not listed are found by the beginning that they have in common. */
function pathsOf({ name }: PathShare, { shares, other }: Breakdown, hrefFor: (path: string) => string) {
  const prefix = name.slice(0, name.indexOf(':'))
  const listed = shares.map((path) => ({
    name: visible(path.name),
    href: hrefFor(path.name),
    counts: countWords(path),
  }))
  return allRequests(other) === 0
    ? listed
    : [...listed, { name: 'other paths', href: hrefFor(prefix), counts: countWords(other) }]
}

function limitToRefused({ blocked, denied }: TrafficCounts): TrafficCounts {
  return { total: blocked, blocked, would_block: 0, denied }
}

function toShareRow(
  name: string,
  href: string | undefined,
  counts: TrafficCounts,
  segments: ShareRow['segments'],
): ShareRow {
  return {
    name,
    href,
    requests: formatCount(allRequests(counts)),
    blocked: formatCount(counts.blocked),
    would_block: formatCount(counts.would_block),
    denied: formatCount(counts.denied),
    block_rate: formatRate(counts.total === 0 ? 0 : counts.blocked / counts.total),
    segments,
    effect: undefined,
  }
}
