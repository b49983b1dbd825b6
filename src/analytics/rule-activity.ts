import { busiest, type TrafficCounts } from './breakdown.js'
import { readTraffic } from './traffic.js'
import { type Report, windowFor } from './window.js'

/** What each rule decided in the last day, and which decided anything in the last week. */
export interface RuleActivity {
  /** The traffic of the last 24 hours, by the rule's name; empty for requests that no rule matched. */
  readonly today: ReadonlyMap<string, TrafficCounts>
  /** The rules that decided about a request in the last 7 days. */
  readonly active: ReadonlySet<string>
}

const WEEK_DAYS = 7

/** Reports what rules do, for the list of all rules. */
export function ruleActivity(): Report<RuleActivity> {
  return async (snapshot) => {
    const [today, week] = await Promise.all([
      readTraffic(snapshot, windowFor(1, snapshot.nowMs)),
      readTraffic(snapshot, windowFor(WEEK_DAYS, snapshot.nowMs)),
    ])
    return {
      today: new Map(busiest(today, ({ rule_name }) => rule_name).map((share) => [share.name, share])),
      active: new Set(week.map(({ rule_name }) => rule_name)),
    }
  }
}
