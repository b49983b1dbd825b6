import type { OffenderOverTime } from '../analytics/offenders-over-time.js'
import { barTime } from './chart.js'
import { formatCount } from './format.js'
import { rounded } from './stack.js'

/** The least height of a bar above 0, in percent. */
const LEAST_HEIGHT = 8

/** A small chart of when a client was blocked: a path in a box one unit wide per bar, and 100 high. */
export interface Sparkline {
  readonly columns: number
  readonly path: string
  /** Describes the chart in words. */
  readonly description: string
}

export function drawSparkline({ bar_ms, bars }: Pick<OffenderOverTime, 'bar_ms' | 'bars'>): Sparkline {
  const most = Math.max(1, ...bars.map(({ blocked }) => blocked))
  const path = bars.flatMap(({ blocked }, place) => {
    if (blocked === 0) return []
    const height = rounded(Math.max(LEAST_HEIGHT, (100 * blocked) / most))
    return [`M${place} 100v-${height}h.9v${height}z`]
  })
  const busiest = bars.find(({ blocked }) => blocked === most)
  const when = busiest === undefined ? '' : `, ${barTime(busiest.start_ms, bar_ms)} UTC`
  return { columns: bars.length, path: path.join(''), description: `At most ${formatCount(most)} blocked${when}` }
}
