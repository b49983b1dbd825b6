import type { AdminJSOptions, PageContext } from 'adminjs'
import { type Internals, nearestMount } from '../src/plugin/internals.js'
import type { SmartRateLimit } from '../src/plugin/smart-rate-limit.js'
import { createReportRunner, type LogSnapshot } from '../src/reports/report.js'
import { windowFor } from '../src/reports/report-window.js'
import { topClients } from '../src/reports/top-clients.js'
import { countTraffic, type TrafficSummary, toSummary } from '../src/reports/traffic.js'
import { overrideClientFor } from '../src/staff/dashboard/client-offer.js'
import { formatCount, formatRate, visible } from '../src/staff/dashboard/format.js'
import { clientHref } from '../src/staff/dashboard/links.js'
import { type LogState, logNotices, logsOnlyBlocked, readLogState } from '../src/staff/dashboard/log-state.js'
import { panelLinks } from '../src/staff/dashboard/panel-links.js'
import { hasRight } from './resources/actions.js'

const CLIENTS = 5
const DAYS = 1

/** Creates the first page of the panel: what is in force, and which clients are refused. */
export function homePage(
  internals: Internals,
  { client }: SmartRateLimit,
  mount: string,
): NonNullable<AdminJSOptions['dashboard']> {
  const { database, mounts, clock, switches } = internals
  async function readHome(_request: unknown, _response: unknown, context: PageContext) {
    const mayBlock = hasRight(context, 'writeOverrides')
    const [rules, active, overrides, { summary, clients }] = await Promise.all([
      client.rateLimitRule.count(),
      client.rateLimitRule.count({ where: { isActive: true } }),
      client.rateLimitOverride.count({
        where: { OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(clock.now()) } }] },
      }),
      createReportRunner(database, clock)(readTraffic),
    ])
    const dashboard = nearestMount(mounts.dashboards, mount)
    const log = readLogState(internals)
    return {
      dashboard,
      notices: [
        ...(switches.useDynamicRules ? [] : [RULES_OFF]),
        ...noticesFor(log, summary.total + summary.denied > 0),
      ],
      tiles: [
        { label: 'Active rules', value: formatCount(active), detail: `of ${formatCount(rules)}`, resource: 'rules' },
        { label: 'Overrides', value: formatCount(overrides), detail: 'in force', resource: 'overrides' },
        { ...trafficTile(summary, logsOnlyBlocked(log)), resource: 'events' },
      ],
      empty: switches.logEvents === false ? 'No refusals are logged.' : 'No client was refused.',
      clients: clients.map(({ client: name, over_limit, denied }) => ({
        name: visible(name),
        refused: refusedWords(over_limit, denied),
        // Its page has the actions.
        href: dashboard === undefined ? undefined : `${dashboard}${clientHref(name, { days: DAYS })}`,
        ...(dashboard === undefined &&
          mayBlock && { block: panelLinks(mount, name, overrideClientFor(name), clock.now()).block }),
      })),
    }
  }
  return { component: 'RateLimitHome', handler: readHome }
}

/** Reads the requests of the last day, and the most refused clients over all rules, in one snapshot. */
async function readTraffic(snapshot: LogSnapshot) {
  const counts = await countTraffic(snapshot, windowFor({ days: DAYS }, snapshot.nowMs))
  const summary = { ...toSummary(DAYS, counts), denied: counts.denied }
  return { summary, clients: await topClients({ days: DAYS, limit: CLIENTS })(snapshot) }
}

function refusedWords(overLimit: number, denied: number): string {
  const words = [
    ...(overLimit > 0 || denied === 0 ? [`${formatCount(overLimit)} over the limit`] : []),
    ...(denied > 0 ? [`${formatCount(denied)} denied`] : []),
  ]
  return words.join(', ')
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

/**
 * Returns the tile of the traffic, denied requests included as on the dashboard; without a rate where the log has
 * refusals only, since it would mislead.
 */
function trafficTile(
  { total, allowed, blocked, block_rate, denied }: TrafficSummary & { readonly denied: number },
  onlyBlocked: boolean,
) {
  const deniedWords = denied === 0 ? '' : `, ${formatCount(denied)} denied`
  if (!onlyBlocked) {
    return {
      label: 'Requests, last 24 hours',
      value: formatCount(total + denied),
      detail: `${formatCount(blocked)} over the limit (${formatRate(block_rate)}${denied === 0 ? '' : ' of those not denied'})${deniedWords}`,
    }
  }
  const letThrough = allowed === 0 ? '' : `${formatCount(allowed)} over a limit let through`
  return { label: 'Over the limit, last 24 hours', value: formatCount(blocked), detail: letThrough }
}
