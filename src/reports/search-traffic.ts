import { CooperativeYield } from '../ground/time/cooperative-yield.js'
import { allRequests, busiest, type TrafficCounts } from './breakdown.js'
import type { Report } from './report.js'
import { toWindow, type WindowOptions, windowFor } from './report-window.js'
import { readTraffic } from './traffic.js'

/** A path or a rule of the log, with its requests. */
export interface FoundTraffic extends TrafficCounts {
  readonly name: string
}

interface TrafficSearch {
  /** The paths, the busiest first; those for which the sums had no room are not among them. */
  readonly paths: readonly FoundTraffic[]
  /** The names of rules that decided, the busiest first, also of those that were deleted since. */
  readonly rules: readonly FoundTraffic[]
}

/**
 * Finds the paths and rules of a window whose name contains a text, in any case. The sums of the dashboard are read, so
 * the work is bounded whatever the size of the log.
 */
export function searchTraffic({ text, ...options }: WindowOptions & { readonly text: string }): Report<TrafficSearch> {
  const window = toWindow(options, 7)
  const searched = text.toLowerCase()
  return async (snapshot) => {
    const traffic = await readTraffic(snapshot, windowFor(window, snapshot.nowMs))
    const slices = new CooperativeYield()
    const find = async (nameFor: (counts: (typeof traffic)[number]) => string) => {
      await slices.pause()
      const found = traffic.filter((counts) => nameFor(counts).toLowerCase().includes(searched))
      return busiest(found, nameFor, allRequests).filter(({ name }) => name !== '')
    }
    return { paths: await find(({ path }) => path), rules: await find(({ rule_name }) => rule_name) }
  }
}
