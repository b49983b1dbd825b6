import type { ClientBar, ClientDetail } from '../analytics/client-detail.js'
import { type Chart, drawChart } from './chart.js'
import { formatTime } from './format.js'
import { changeWords } from './override-words.js'
import type { Outcome } from './stack.js'

/**
 * Draws the requests of a client by their outcomes, and marks the changes of its overrides.
 *
 * @param rates whether the share of refusals is meaningful
 */
export function drawClientChart({ timeline: { bar_ms, bars }, history }: ClientDetail, rates: boolean): Chart {
  const startMs = bars[0]?.start_ms ?? 0
  const endMs = startMs + bars.length * bar_ms
  const changes = history.map((change) => {
    const at_ms = change.changedAt.getTime()
    return { at_ms, href: `#change-${change.id}`, text: `${formatTime(at_ms)} UTC: ${changeWords(change)}` }
  })
  return drawChart(
    {
      bar_ms,
      bars: bars.map(({ start_ms, requests, over_limit, would_be, denied }) => ({
        start_ms,
        total: requests - denied,
        blocked: over_limit,
        would_block: would_be,
        denied,
      })),
    },
    { rates, changes: changes.filter(({ at_ms }) => at_ms >= startMs && at_ms <= endMs) },
  )
}

/** Returns counts as the style sheet names the outcomes. */
export function toOutcomes({
  requests,
  over_limit,
  would_be,
  denied,
}: Omit<ClientBar, 'start_ms'>): Record<Outcome, number> {
  return { denied, blocked: over_limit, 'would-block': would_be, allowed: requests - over_limit - would_be - denied }
}
