import type { OverTime } from '../analytics/over-time.js'
import { barTime } from './chart.js'
import { formatCount } from './format.js'
import { rounded } from './stack.js'

/** What is not nothing is at least so high, in percent. */
const LEAST_HEIGHT = 8

/** A small drawing of when somebody was blocked: a path in a box as wide as there are bars, and 100 high. */
export interface Sparkline {
  readonly columns: number
  readonly path: string
  /** Says in words what the drawing shows. */
  readonly description: string
}

/** @param counts one number per bar of the chart, at least one of them above 0 */
export function drawSparkline(counts: readonly number[], { bar_ms, bars }: OverTime): Sparkline {
  const most = Math.max(1, ...counts)
  const path = counts.flatMap((count, place) => {
    if (count === 0) return []
    const height = rounded(Math.max(LEAST_HEIGHT, (100 * count) / most))
    return [`M${place} 100v-${height}h1v${height}z`]
  })
  const busiest = bars[counts.indexOf(most)]
  const when = busiest === undefined ? '' : `, ${barTime(busiest.start_ms, bar_ms)} UTC`
  return { columns: counts.length, path: path.join(''), description: `At most ${formatCount(most)} blocked${when}` }
}
