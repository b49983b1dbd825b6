import type { RefusedOverTime } from '../analytics/clients-over-time.js'
import { barTime } from './chart.js'
import { formatCount } from './format.js'
import { rounded } from './stack.js'

/** The least height of a part above 0, in percent. */
const LEAST_HEIGHT = 8

/** A small chart of when a client was refused: paths in a box one unit wide per bar, and 100 high. */
export interface Sparkline {
  readonly columns: number
  readonly over_limit: string
  /** On top of the others; empty without denials. */
  readonly denied: string
  /** Describes the chart in words. */
  readonly description: string
}

export function drawSparkline({ bar_ms, bars }: RefusedOverTime): Sparkline {
  const sums = bars.map(({ over_limit, denied }) => over_limit + denied)
  const most = Math.max(1, ...sums)
  const heightOf = (count: number) => (count === 0 ? 0 : Math.max(LEAST_HEIGHT, (100 * count) / most))
  const drawn = bars.map(({ over_limit, denied }, place) => {
    const [over, above] = [heightOf(over_limit), heightOf(denied)]
    // What the least heights add must not leave the box.
    const scale = Math.min(1, 100 / (over + above))
    return {
      over_limit: column(place, 0, over * scale),
      denied: column(place, over * scale, above * scale),
    }
  })
  const busiest = bars[sums.indexOf(most)]
  return {
    columns: bars.length,
    over_limit: drawn.map((its) => its.over_limit).join(''),
    denied: drawn.map((its) => its.denied).join(''),
    description:
      busiest === undefined
        ? 'Never refused'
        : `At most ${outcomeWords(busiest)}, ${barTime(busiest.start_ms, bar_ms)} UTC`,
  }
}

function column(place: number, from: number, height: number): string {
  return height === 0 ? '' : `M${place} ${rounded(100 - from)}v-${rounded(height)}h.9v${rounded(height)}z`
}

function outcomeWords({ over_limit, denied }: RefusedOverTime['bars'][number]): string {
  const parts = [
    ...(over_limit > 0 ? [`${formatCount(over_limit)} over the limit`] : []),
    ...(denied > 0 ? [`${formatCount(denied)} denied`] : []),
  ]
  return parts.join(' and ')
}
