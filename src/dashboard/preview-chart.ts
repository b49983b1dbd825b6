import type { RulePreview } from '../preview/report.js'
import { HOUR_MS } from '../time/clock.js'
import { type Chart, drawChart } from './chart.js'

/** Draws the hours of a preview: the requests that the rule matches, by what it would have done with them. */
export function drawPreview({ by_hour, sentence }: RulePreview): Chart {
  const bars = by_hour.map(({ hour, matched, over_limit, would_refuse }) => ({
    start_ms: Date.parse(hour),
    total: matched,
    blocked: would_refuse,
    would_block: over_limit - would_refuse,
    denied: 0,
  }))
  return { ...drawChart({ bar_ms: HOUR_MS, bars }, { rates: true }), description: sentence }
}
