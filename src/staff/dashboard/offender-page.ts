import type { KeyDetail } from '../../reports/offender-detail.js'
import type { RecentEvent } from '../../reports/recent-events.js'
import { formatBar, formatCount, offeredWindows, toMoment, visible, windowName } from './format.js'
import {
  type Back,
  clientHref,
  dashboardHref,
  explainHref,
  offenderFields,
  offenderJsonHref,
  searchHref,
} from './links.js'
import { type LogState, logNotices, logsOnlyBlocked } from './log-state.js'
import type { PanelLinks } from './panel-links.js'
import { summary } from './summary.js'

/**
 * Returns the context of `offender.hbs`: the unformatted detail, and everything the page shows, formatted, in `page`.
 *
 * @param client as overrides spell it, where one can name it
 */
export function offenderContext(
  detail: KeyDetail,
  client: string | undefined,
  back: Back,
  log: LogState,
  nowMs: number,
  panel: PanelLinks | undefined,
) {
  const { key, days, by_path, recent_events } = detail
  const most = by_path[0]?.blocked_count ?? 0
  return {
    ...detail,
    page: {
      title: `Counter ${visible(key)}`,
      subtitle: 'Rate limits',
      name: visible(key),
      window: windowName(days),
      windows: offeredWindows(days, 'days'),
      kept: offenderFields(key, back).map(([name, value]) => ({ name, value })),
      notices: logNotices(log, detail.total > 0),
      is_logging: log.switches.enabled && log.switches.logEvents !== false,
      summaries: [summary(detail, { onlyBlocked: logsOnlyBlocked(log) })],
      has_traffic: detail.total > 0,
      first_seen: detail.first_seen === null ? null : toMoment(Date.parse(detail.first_seen)),
      last_seen: detail.last_seen === null ? null : toMoment(Date.parse(detail.last_seen)),
      paths: by_path.map(({ path, blocked_count }) => ({
        path: visible(path),
        href: dashboardHref(days, { key, path }),
        blocked: formatCount(blocked_count),
        bar: formatBar(blocked_count, most),
      })),
      events: recent_events.map((event) => ({
        ...toMoment(Date.parse(event.timestamp)),
        ...decision(event),
        method: visible(event.method),
        path: visible(event.path),
        why_href: explainHref({ ...event, client: event.client || (client ?? key) }, { days, back }, event.id),
        usage: `${formatCount(event.count)} of ${formatCount(event.limit)}`,
        policy: visible(event.policy),
      })),
      recent: recent_events.length === 1 ? 'Latest request' : `Latest ${recent_events.length} requests`,
      dashboard_href: dashboardHref(days, back),
      traffic_href: dashboardHref(days, { key }),
      client_href: client === undefined ? searchHref(key, days, back) : clientHref(client, days, back),
      json_href: offenderJsonHref(key, days),
      panel,
      now: toMoment(nowMs),
    },
  }
}

/** Returns a decision's text, and its class in the style sheet as `decision`. */
function decision({ allowed, count, limit }: RecentEvent) {
  if (!allowed) return { decision: 'blocked', decision_text: 'Blocked' }
  // The rule does not block.
  if (count > limit) return { decision: 'over-limit', decision_text: 'Would be refused' }
  return { decision: 'allowed', decision_text: 'Allowed' }
}
