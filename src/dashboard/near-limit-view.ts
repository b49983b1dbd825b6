import type { DashboardReport } from '../analytics/dashboard-report.js'
import { isFiltering } from '../analytics/filter.js'
import { NOW_MS } from '../analytics/near-limit.js'
import { formatBar, formatCount, type Moment, toMoment, visible } from './format.js'
import { clientHref, offenderHref } from './links.js'

/** Returns the clients near a limit, and which requests were looked at, for `near-limit.hbs`. */
export function nearLimitView({ near_limit, days, filter }: DashboardReport) {
  const { clients, since_ms, requests } = near_limit
  return {
    // A part of a minute, where there were very many requests.
    seconds: formatCount(NOW_MS / 1_000),
    since: timeOfDay(since_ms),
    requests: requests === 0 ? '' : formatCount(requests),
    is_filtered: isFiltering(filter),
    clients: clients.map(({ client, key, policy, count, limit, at_ms }) => ({
      name: visible(client === '' ? key : client),
      href: client === '' ? offenderHref(key, days, filter) : clientHref(client, days, filter),
      policy: visible(policy),
      usage: `${Math.floor((100 * count) / limit)}%`,
      of: `${formatCount(count)} of ${formatCount(limit)}`,
      bar: formatBar(count, limit),
      ...timeOfDay(at_ms),
    })),
  }
}

function timeOfDay(ms: number): Moment {
  const { iso, time } = toMoment(ms)
  return { iso, time: time.slice('2026-01-15 '.length) }
}
