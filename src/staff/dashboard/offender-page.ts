import type { RecentEvent } from '../../reports/listed-events.js'
import type { KeyDetail } from '../../reports/offender-detail.js'
import { latestTitle, timesText } from './event-row.js'
import { figures, type OutcomeCounts } from './figures.js'
import { formatBar, formatCount, offeredWindows, toMoment, visible, windowName, windowTitle } from './format.js'
import {
  type Back,
  clientHref,
  dashboardHref,
  explainHref,
  newOverrideHref,
  offenderFields,
  offenderHref,
  offenderJsonHref,
  searchHref,
} from './links.js'
import { type LogState, lacksAllowedClients, logNotices } from './log-state.js'
import type { RequestedWindow } from './requested-view.js'
import { timeSelector } from './time-selector.js'

/** The links of the page of a key. */
interface OffenderLinks {
  /** The page of its events. */
  readonly events: string
  /** The client, as overrides spell it, for staff who may write one. */
  readonly blockable: string | undefined
}

/** The duration of an override that a link proposes: long enough to investigate. */
const PROPOSED_LENGTH = '24h'
/** The rate that "Limit this client" proposes. */
const PROPOSED_RATE = '10/m'

/**
 * Returns the context of `offender.hbs`: the unformatted detail, and everything the page shows, formatted, in `page`.
 *
 * @param client as overrides spell it, where one can name it
 */
export function offenderContext(
  detail: KeyDetail,
  { window, typed }: RequestedWindow,
  client: string | undefined,
  back: Back,
  log: LogState,
  nowMs: number,
  { events, blockable }: OffenderLinks,
) {
  const { key, by_path, recent_events } = detail
  const most = by_path[0]?.blocked_count ?? 0
  return {
    ...detail,
    page: {
      title: `Counter ${visible(key)}`,
      subtitle: 'Rate limits',
      name: visible(key),
      window: windowName(window),
      windows: offeredWindows(window, 'days'),
      time: timeSelector({ window, typed }, nowMs, (chosen) => offenderHref(key, chosen, back)),
      kept: offenderFields(key, back).map(([name, value]) => ({ name, value })),
      notices: logNotices(log, detail.total > 0),
      is_logging: log.switches.enabled && log.switches.logEvents !== false,
      window_title: windowTitle(window),
      figures: figures(outcomesOf(detail, lacksAllowedClients(log)), { onlyBlocked: lacksAllowedClients(log) }),
      has_traffic: detail.total > 0,
      first_seen: detail.first_seen === null ? null : toMoment(Date.parse(detail.first_seen)),
      last_seen: detail.last_seen === null ? null : toMoment(Date.parse(detail.last_seen)),
      paths: by_path.map(({ path, blocked_count }) => ({
        path: visible(path),
        href: dashboardHref(window, { key, path }),
        blocked: formatCount(blocked_count),
        bar: formatBar(blocked_count, most),
      })),
      events: recent_events.map((event) => ({
        ...toMoment(Date.parse(event.timestamp)),
        ...decision(event),
        method: visible(event.method),
        path: visible(event.path),
        why_href: explainHref({ ...event, client: event.client || (client ?? key) }, { window, back }, event.id),
        usage: `${formatCount(event.count)} of ${formatCount(event.limit)}`,
        policy: visible(event.policy),
      })),
      recent: latestTitle(recent_events),
      dashboard_href: dashboardHref(window, back),
      traffic_href: dashboardHref(window, { key }),
      client_href: client === undefined ? searchHref(key, window, back) : clientHref(client, window, back),
      json_href: offenderJsonHref(key, window),
      events_href: events,
      block_href: blockable && newOverrideHref({ client: blockable, effect: 'deny', expiresAt: PROPOSED_LENGTH }),
      limit_href:
        blockable && newOverrideHref({ client: blockable, effect: PROPOSED_RATE, expiresAt: PROPOSED_LENGTH }),
      now: toMoment(nowMs),
    },
  }
}

/** A log of refusals alone has what was let through only where a limit does not block. */
function outcomesOf({ allowed, blocked }: KeyDetail, onlyBlocked: boolean): OutcomeCounts {
  const [within, over] = onlyBlocked ? [0, allowed] : [allowed, 0]
  return { allowed: within, refused: blocked, 'would-be-refused': over, denied: 0 }
}

/** Returns a decision's text, and its class in the style sheet as `decision`. */
function decision({ allowed, count, limit, weight }: RecentEvent) {
  if (!allowed) return { decision: 'refused', decision_text: timesText('Refused', weight) }
  // The rule does not block.
  if (count > limit) return { decision: 'would-be-refused', decision_text: timesText('Would be refused', weight) }
  return { decision: 'allowed', decision_text: timesText('Allowed', weight) }
}
