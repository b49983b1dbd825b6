import { type Breakdown, breakdown, type Share, type TrafficCounts } from './breakdown.js'

/** A path, or the template of a route with its paths. */
export interface PathShare extends Share {
  /** The busiest paths of the route, at most 10; undefined for a path by itself. */
  readonly paths?: Breakdown
}

/** The traffic by path, where paths of one route are one share. */
export interface PathBreakdown extends Breakdown {
  readonly shares: readonly PathShare[]
}

/** The counts of a path. */
interface PathCounts extends TrafficCounts {
  readonly path: string
  readonly method: string
}

const MAX_PATHS = 10

/**
 * Breaks traffic down by path. The rollups count paths for which they had no room under the empty path.
 *
 * @param templateFor returns the template of the route that a path reaches; undefined for a path by itself
 */
export function pathBreakdown(
  traffic: readonly PathCounts[],
  templateFor: (method: string, path: string) => string | undefined,
  measure: (counts: TrafficCounts) => number,
): PathBreakdown {
  const templates = new Set<string>()
  const names = new Map<PathCounts, string>()
  for (const counts of traffic) {
    const template = templateFor(counts.method, counts.path)
    if (template !== undefined) templates.add(template)
    names.set(counts, template ?? counts.path)
  }
  const nameFor = (counts: PathCounts) => names.get(counts) ?? counts.path
  const { shares, other } = breakdown(traffic, nameFor, (name) => name !== '', measure)
  const listed = shares.filter(({ name }) => templates.has(name))
  const grouped = new Map(listed.map(({ name }): [string, PathCounts[]] => [name, []]))
  for (const [counts, name] of names) grouped.get(name)?.push(counts)
  return {
    other,
    shares: shares.map((share) => {
      const paths = grouped.get(share.name)
      return paths === undefined
        ? share
        : { ...share, paths: breakdown(paths, ({ path }) => path, undefined, measure, MAX_PATHS) }
    }),
  }
}
