/** The incidents of policies. Pure. */
import { type FoundIncident, POLICY_SCOPE, type RefusedRow } from './incident.js'
import { HEAVY_POLICY, isHeavy, median, QUIET_HOURS, spansFrom, usualHours } from './usual.js'

/** The refusals of a policy in an hour. */
export interface PolicyTotal {
  readonly policy: string
  readonly refused: number
  readonly denied: number
}

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

/** Finds the incidents of policies, from the refusals of clients that are in no other incident. */
export function findPolicies({ totals, attackers, firstHour, from, present }: PolicyFacts): FoundIncident[] {
  const { refused: ofOthers, clients } = attributed(attackers)
  const hours = Array.from({ length: present + 1 - from }, (_, index) => from + index)
  const policies = new Set(hours.flatMap((hour) => [...(totals.get(hour)?.keys() ?? [])]))
  return [...policies].flatMap((policy) => {
    const left = (hour: number) =>
      Math.max(0, (totals.get(hour)?.get(policy)?.refused ?? 0) - (ofOthers.get(rowKey(hour, policy)) ?? 0))
    const usual = (hour: number) =>
      median(usualHours(hour, firstHour).map((each) => totals.get(each)?.get(policy)?.refused ?? 0))
    // The usual is looked up last: it is known for hours with many refusals only.
    const heavy = hours.filter((hour) => left(hour) >= HEAVY_POLICY && isHeavy(left(hour), usual(hour), HEAVY_POLICY))
    return spansFrom(heavy, (hour) => left(hour) > usual(hour), present).map((span): FoundIncident => {
      const rows = hours
        .filter((hour) => hour >= span.from && hour < span.to)
        .map((at): RefusedRow => {
          const denied = totals.get(at)?.get(policy)?.denied ?? 0
          return { at, client: '', policy, refused: left(at), denied }
        })
      const without = (clients.get(policy) ?? []).filter(([hour]) => hour >= span.from && hour < span.to)
      return { kind: 'policy', scope: `${POLICY_SCOPE}${policy}`, ...span, rows, before: [], without }
    })
  })
}

/** Returns the hours of which the totals are needed: of those in which a policy may be heavy, and as long as it may go on. */
export function hoursForUsual({ totals, firstHour, from, present }: Omit<PolicyFacts, 'attackers'>): number[] {
  const needed = new Set<number>()
  for (let hour = from, until = from; hour <= present; hour++) {
    const most = Math.max(0, ...[...(totals.get(hour)?.values() ?? [])].map(({ refused }) => refused))
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
