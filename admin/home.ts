import type { AdminJSOptions } from 'adminjs'
import { countedClients } from '../src/analytics/counted-clients.js'
import { topOffenders } from '../src/analytics/top-offenders.js'
import { type TrafficSummary, trafficSummary } from '../src/analytics/traffic-summary.js'
import { createReportRunner, type LogSnapshot } from '../src/analytics/window.js'
import type { SmartRateLimit } from '../src/app/smart-rate-limit.js'
import { formatCount, formatRate, visible } from '../src/dashboard/format.js'
import { type LogState, logNotices, logsOnlyBlocked, readLogState } from '../src/dashboard/log-state.js'
import { commonClient, panelLinks } from '../src/dashboard/panel-links.js'
import { type Internals, nearestMount } from '../src/internals.js'
import { offenderHref } from './resources/links.js'

const OFFENDERS = 5

/** Creates the first page of the panel: what is in force, and which clients are refused. */
export function homePage(
  internals: Internals,
  { client }: SmartRateLimit,
  mount: string,
): NonNullable<AdminJSOptions['dashboard']> {
  const { database, places, clock, switches, countsByUser } = internals
  async function readHome() {
    const [rules, active, overrides, { summary, offenders, counted }] = await Promise.all([
      client.rateLimitRule.count(),
      client.rateLimitRule.count({ where: { isActive: true } }),
      client.rateLimitOverride.count({
        where: { OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(clock.now()) } }] },
      }),
      createReportRunner(database, clock)(readTraffic),
    ])
    const dashboard = nearestMount(places.dashboards, mount)
    const log = readLogState(internals)
    return {
      dashboard,
      notices: [...(switches.useDynamicRules ? [] : [RULES_OFF]), ...noticesFor(log, summary.total > 0)],
      tiles: [
        { label: 'Active rules', value: formatCount(active), detail: `of ${formatCount(rules)}`, resource: 'rules' },
        { label: 'Overrides', value: formatCount(overrides), detail: 'in force', resource: 'overrides' },
        { ...trafficTile(summary, logsOnlyBlocked(log)), resource: 'events' },
      ],
      empty: switches.logEvents === false ? 'No refusals are logged.' : 'No client was blocked.',
      offenders: offenders.map(({ key, blocked_count }, place) => ({
        key: visible(key),
        blocked: formatCount(blocked_count),
        href: offenderHref(dashboard, key),
        ...panelLinks(mount, key, commonClient(counted[place] ?? [], countsByUser), clock.now()),
      })),
    }
  }
  return { component: 'RateLimitHome', handler: readHome }
}

/** Reads the requests of the last day, and the most refused keys with their clients, in one snapshot. */
async function readTraffic(snapshot: LogSnapshot) {
  const summary = await trafficSummary({ days: 1 })(snapshot)
  const offenders = await topOffenders({ days: 1, limit: OFFENDERS })(snapshot)
  const keys = offenders.map(({ key }) => key)
  return { summary, offenders, counted: await countedClients(keys, 1)(snapshot) }
}

const RULES_OFF = 'Rules and overrides are off on this server: they apply while useDynamicRules is true.'
const LIMITER_OFF = 'The limiter is off on this server: nothing is limited or logged while enabled is false.'
const LOG_OFF = 'This server logs no requests: they are logged while logEvents, or RATELIMIT_LOG_EVENTS, is true.'
const ONLY_BLOCKED =
  "Only refusals are logged: while logEvents is 'blocked', requests within their limit are not in these numbers."

/** Returns the dashboard's notices about the log. */
function noticesFor(log: LogState, hasTraffic: boolean): string[] {
  const { limiter_off, log_off, only_blocked, dropped } = logNotices(log, true)
  const notices = [
    limiter_off && LIMITER_OFF,
    log_off && (hasTraffic ? `${LOG_OFF} The numbers shown were logged earlier, or by other servers.` : LOG_OFF),
    only_blocked && ONLY_BLOCKED,
    dropped && `${dropped}: the numbers are too low by as much.`,
  ]
  return notices.filter((text) => typeof text === 'string')
}

/** Returns the tile of the traffic, without a rate where the log has refusals only, since it would mislead. */
function trafficTile({ total, allowed, blocked, block_rate }: TrafficSummary, onlyBlocked: boolean) {
  if (!onlyBlocked) {
    return {
      label: 'Requests today',
      value: formatCount(total),
      detail: `${formatCount(blocked)} blocked (${formatRate(block_rate)}), last 24 hours`,
    }
  }
  const letThrough = allowed === 0 ? '' : `${formatCount(allowed)} over a limit let through, `
  return { label: 'Blocked today', value: formatCount(blocked), detail: `${letThrough}last 24 hours` }
}
