import type { Algorithm, Check, Decision } from '../limiter/algorithm.js'

/** The checks on one counter that one statement or script can take together, in the order of their arrival. */
export interface Group {
  readonly first: Check
  readonly checks: Check[]
  /** Where their decisions belong in the batch. */
  readonly places: number[]
}

/** Whether a check can go into the group that `first`, on the same counter, has begun. */
export type Joins = (first: Check, next: Check) => boolean

interface Grouping {
  /** How the store names the counter of a key. */
  readonly storedKey: (key: string) => string
  readonly counters: Readonly<Record<Algorithm, { readonly joins: Joins }>>
}

/**
 * Groups the checks at `places` by algorithm and counter, since one statement can change a counter only once. A check
 * that cannot join those before it (a rule was just edited, or costs differ) is left for later, and so is all that
 * follows it on its counter.
 */
export function groupChecks(checks: readonly Check[], places: readonly number[], { storedKey, counters }: Grouping) {
  const byAlgorithm = new Map<Algorithm, Map<string, Group>>()
  const closed = new Set<Group>()
  const left: number[] = []
  for (const place of places) {
    const check = checks[place]
    if (check === undefined) continue
    const { algorithm } = check.policy
    let groups = byAlgorithm.get(algorithm)
    if (groups === undefined) {
      groups = new Map()
      byAlgorithm.set(algorithm, groups)
    }
    const key = storedKey(check.key)
    const group = groups.get(key)
    if (group === undefined) {
      groups.set(key, { first: check, checks: [check], places: [place] })
    } else if (!closed.has(group) && counters[algorithm].joins(group.first, check)) {
      group.checks.push(check)
      group.places.push(place)
    } else {
      closed.add(group)
      left.push(place)
    }
  }
  return { byAlgorithm, left }
}

/** Puts the decisions on a group where they belong in the batch. */
export function placeDecisions({ places }: Group, answered: readonly Decision[], decisions: Decision[]): void {
  for (const [index, decision] of answered.entries()) {
    const place = places[index]
    if (place !== undefined) decisions[place] = decision
  }
}

/** What a group uses where refused checks count too. */
export function costOf({ checks }: Group): number {
  return checks.reduce((sum, { cost }) => sum + cost, 0)
}
