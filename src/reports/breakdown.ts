/** The counts of a part of the traffic. */
export interface TrafficCounts {
  /** All requests but denied ones. */
  readonly total: number
  readonly blocked: number
  /** Requests over a limit that does not block, and so were let through. */
  readonly would_block: number
  /** Requests that the deny list, an override or a ban refused. */
  readonly denied: number
}

export interface Share extends TrafficCounts {
  /** A rule (empty: none matched), a path, the template of a route, or a method. */
  readonly name: string
}

/** The traffic by rule, path or method: the busiest, and the sum of the others. */
export interface Breakdown {
  /** The shares with the most requests first, denied ones too, or the most refusals, then by name; at most 20. */
  readonly shares: readonly Share[]
  /** The sum of all that is not listed; zeros where everything is. */
  readonly other: TrafficCounts
}

const MAX_SHARES = 20

/** Returns all requests of a part of the traffic: denials, too, which its total leaves out. */
export function allRequests({ total, denied }: Pick<TrafficCounts, 'total' | 'denied'>): number {
  return total + denied
}

/** Returns what was refused of a part of the traffic, by a limit or a denial. */
export function allRefused({ blocked, denied }: Pick<TrafficCounts, 'blocked' | 'denied'>): number {
  return blocked + denied
}

/**
 * @param isListed whether a name may have a share of its own; the others are summed
 * @param measure what the order is by; names with none of it are left out
 * @param most the most shares
 */
export function breakdown<Counts extends TrafficCounts>(
  traffic: readonly Counts[],
  nameFor: (counts: Counts) => string,
  isListed: (name: string) => boolean = () => true,
  measure: (counts: TrafficCounts) => number = allRequests,
  most = MAX_SHARES,
): Breakdown {
  const shares = busiest(traffic, nameFor, measure)
  const listed = shares.filter(({ name }) => isListed(name)).slice(0, most)
  const names = new Set(listed.map(({ name }) => name))
  return { shares: listed, other: sumTraffic(shares.filter(({ name }) => !names.has(name))) }
}

/** Sums the counts of each name: the highest first by a measure, then by the bytes of the name. */
export function busiest<Counts extends TrafficCounts>(
  traffic: readonly Counts[],
  nameFor: (counts: Counts) => string,
  measure: (counts: TrafficCounts) => number = ({ total }) => total,
): Share[] {
  // Added up in place: there are thousands of entries in a page.
  const shares = new Map<string, { -readonly [Field in keyof Share]: Share[Field] }>()
  for (const counts of traffic) {
    const name = nameFor(counts)
    const { total, blocked, would_block, denied } = counts
    const share = shares.get(name)
    if (share === undefined) {
      shares.set(name, { name, total, blocked, would_block, denied })
      continue
    }
    share.total += total
    share.blocked += blocked
    share.would_block += would_block
    share.denied += denied
  }
  return [...shares.values()]
    .filter((share) => measure(share) > 0)
    .toSorted((one, other) => measure(other) - measure(one) || compareBytes(one.name, other.name))
}

export const NO_TRAFFIC: TrafficCounts = { total: 0, blocked: 0, would_block: 0, denied: 0 }

export function sumTraffic(traffic: readonly TrafficCounts[]): TrafficCounts {
  let [total, blocked, would_block, denied] = [0, 0, 0, 0]
  for (const counts of traffic) {
    total += counts.total
    blocked += counts.blocked
    would_block += counts.would_block
    denied += counts.denied
  }
  return { total, blocked, would_block, denied }
}

/** Compares in the order of UTF-8, as the databases do. UTF-16 has the same order, except that surrogates come last. */
export function compareBytes(one: string, other: string): number {
  const length = Math.min(one.length, other.length)
  for (let index = 0; index < length; index++) {
    const [unit, otherUnit] = [one.charCodeAt(index), other.charCodeAt(index)]
    if (unit !== otherUnit) return Number(isSurrogate(unit)) - Number(isSurrogate(otherUnit)) || unit - otherUnit
  }
  return one.length - other.length
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff
}
