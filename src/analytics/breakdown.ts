/** The counts of a part of the traffic. */
export interface TrafficCounts {
  readonly total: number
  readonly blocked: number
  /** Requests over a limit that does not block, and so were let through. */
  readonly would_block: number
}

export interface Share extends TrafficCounts {
  /** A rule (empty: none matched), a path or a method. */
  readonly name: string
}

/** The traffic by rule, path or method: the busiest, and the sum of the others. */
export interface Breakdown {
  /** Most requests first, then by name; at most 20. */
  readonly shares: readonly Share[]
  /** The sum of all that is not listed; zeros where everything is. */
  readonly other: TrafficCounts
}

const MAX_SHARES = 20

/** @param isListed whether a name may have a share of its own; the others are summed */
export function breakdown<Counts extends TrafficCounts>(
  traffic: readonly Counts[],
  nameFor: (counts: Counts) => string,
  isListed: (name: string) => boolean = () => true,
): Breakdown {
  const shares = busiest(traffic, nameFor)
  const listed = shares.filter(({ name }) => isListed(name)).slice(0, MAX_SHARES)
  const names = new Set(listed.map(({ name }) => name))
  return { shares: listed, other: sumTraffic(shares.filter(({ name }) => !names.has(name))) }
}

/** Sums the counts of each name: most requests first, then by the bytes of the name. */
export function busiest<Counts extends TrafficCounts>(
  traffic: readonly Counts[],
  nameFor: (counts: Counts) => string,
): Share[] {
  const shares = new Map<string, Share>()
  for (const counts of traffic) {
    const name = nameFor(counts)
    shares.set(name, { name, ...sumTraffic([counts, shares.get(name) ?? NO_TRAFFIC]) })
  }
  return [...shares.values()]
    .filter(({ total }) => total > 0)
    .toSorted((one, other) => other.total - one.total || compareBytes(one.name, other.name))
}

export const NO_TRAFFIC: TrafficCounts = { total: 0, blocked: 0, would_block: 0 }

export function sumTraffic(traffic: readonly TrafficCounts[]): TrafficCounts {
  let [total, blocked, would_block] = [0, 0, 0]
  for (const counts of traffic) {
    total += counts.total
    blocked += counts.blocked
    would_block += counts.would_block
  }
  return { total, blocked, would_block }
}

/** Compares in the order of UTF-8, as the databases do; JavaScript's UTF-16 differs above U+FFFF. */
export function compareBytes(one: string, other: string): number {
  return Buffer.compare(Buffer.from(one), Buffer.from(other))
}
