/** The incidents of policies. */
import { CooperativeYield } from '../../ground/time/cooperative-yield.js'
import type { PolicyTotal } from '../closed-hour-cache.js'
import { type FoundIncident, POLICY_SCOPE, type RefusedRow } from './incident.js'
import { HEAVY_POLICY, isHeavy, median, QUIET_HOURS, spansFrom, usualHours } from './usual.js'

/** The totals of every policy by hour. */
export type PolicyTotals = ReadonlyMap<number, ReadonlyMap<string, PolicyTotal>>

export interface PolicyFacts {
  /** The totals of the hours from the first to the last, and of those that tell what is usual in them. */
  readonly totals: PolicyTotals
  readonly attackers: readonly FoundIncident[]
  readonly firstHour: number
  readonly from: number
  readonly present: number
}

/**
 * Finds the incidents of policies, from the refusals of clients that are in no other incident. In slices: there may be
 * thousands of policies.
 */
export async function findPolicies(facts: PolicyFacts): Promise<FoundIncident[]> {
  const { totals, firstHour, from, present } = facts
  const { refused: ofOthers, clients } = attributed(facts.attackers)
  const hours = Array.from({ length: present + 1 - from }, (_, index) => from + index)
  const incidents: FoundIncident[] = []
  const slices = new CooperativeYield()
  for (const policy of await mayBeHeavy(totals, hours, slices)) {
    if (slices.over()) await slices.pause()
    const left = (hour: number) =>
      Math.max(0, (totals.get(hour)?.get(policy)?.refused ?? 0) - (ofOthers.get(rowKey(hour, policy)) ?? 0))
    const usual = (hour: number) =>
      median(usualHours(hour, firstHour).map((each) => totals.get(each)?.get(policy)?.refused ?? 0))
    // The usual is looked up last: it is known for hours with many refusals only.
    const heavy = hours.filter((hour) => left(hour) >= HEAVY_POLICY && isHeavy(left(hour), usual(hour), HEAVY_POLICY))
    for (const span of spansFrom(heavy, (hour) => left(hour) > usual(hour), present)) {
      const rows = hours
        .filter((hour) => hour >= span.from && hour < span.to)
        .map((at): RefusedRow => {
          const denied = totals.get(at)?.get(policy)?.denied ?? 0
          return { at, client: '', policy, refused: left(at), denied }
        })
      const without = (clients.get(policy) ?? []).filter(([hour]) => hour >= span.from && hour < span.to)
      incidents.push({ kind: 'policy', scope: `${POLICY_SCOPE}${policy}`, ...span, rows, before: [], without })
    }
  }
  return incidents
}

/** Returns the policies that refused enough in an hour to be heavy, whoever was refused. */
async function mayBeHeavy(
  totals: PolicyTotals,
  hours: readonly number[],
  slices: CooperativeYield,
): Promise<ReadonlySet<string>> {
  const policies = new Set<string>()
  for (const hour of hours) {
    if (slices.over()) await slices.pause()
    for (const [policy, { refused }] of totals.get(hour) ?? []) if (refused >= HEAVY_POLICY) policies.add(policy)
  }
  return policies
}

/** Returns the hours of which the totals are needed: of those in which a policy may be heavy, and as long as it may go on. */
export async function hoursForUsual(facts: Omit<PolicyFacts, 'attackers'>): Promise<number[]> {
  const { totals, firstHour, from, present } = facts
  const needed = new Set<number>()
  const slices = new CooperativeYield()
  for (let hour = from, until = from; hour <= present; hour++) {
    if (slices.over()) await slices.pause()
    let most = 0
    for (const { refused } of totals.get(hour)?.values() ?? []) most = Math.max(most, refused)
    if (most >= HEAVY_POLICY) until = hour + QUIET_HOURS
    if (hour <= until && most > 0) for (const each of usualHours(hour, firstHour)) needed.add(each)
  }
  return [...needed]
}

/** Adds up what other incidents have of each policy, in their hours and in the one before; two incidents may have one row. */
function attributed(attackers: readonly FoundIncident[]) {
  const refused = new Map<string, number>()
  const clients = new Map<string, (readonly [number, string])[]>()
  const added = new Set<RefusedRow>()
  for (const { before, rows } of attackers)
    for (const row of [...before, ...rows]) {
      if (row.refused === 0 || added.has(row)) continue
      added.add(row)
      const hourKey = rowKey(row.at, row.policy)
      refused.set(hourKey, (refused.get(hourKey) ?? 0) + row.refused)
      const existing = clients.get(row.policy)
      if (existing === undefined) clients.set(row.policy, [[row.at, row.client]])
      else existing.push([row.at, row.client])
    }
  return { refused, clients }
}

function rowKey(hour: number, policy: string): string {
  return `${hour} ${policy}`
}
