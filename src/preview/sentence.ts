import { formatCount, formatRate } from '../number-text.js'

interface PreviewTotals {
  readonly events: number
  readonly matched: number
  readonly over_limit: number
  readonly would_refuse: number
  readonly over_limit_clients: number
}

/** Returns what a rule would have done, in the sentence that the panel, the command and the API have in common. */
export function previewSentence(totals: PreviewTotals): string {
  const { events, matched, over_limit, would_refuse, over_limit_clients: clients } = totals
  if (events === 0) return 'The log has no requests of this time.'
  const requests = events === 1 ? '1 request' : `${formatCount(events)} requests`
  if (matched === 0) return `None of ${requests} matched.`
  const found = `${formatCount(matched)} of ${requests} matched`
  if (over_limit === 0) return `${found}, none of these would have been refused.`
  const done = would_refuse === 0 ? 'over the limit, and let through' : 'refused'
  const from = clients === 1 ? '1 client' : `${formatCount(clients)} clients`
  return `${found}, ${formatRate(over_limit / matched)} of these would have been ${done}, from ${from}.`
}
