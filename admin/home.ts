import type { AdminJSOptions } from 'adminjs'
import { countedClients } from '../src/analytics/counted-clients.js'
import { reportsOf } from '../src/analytics/window.js'
import { type Internals, nearestMount } from '../src/internals.js'
import type { SmartRateLimit } from '../src/smart-rate-limit.js'
import { formatCount, formatRate, visible } from '../src/staff/format.js'
import { commonClient, panelLinks } from '../src/staff/panel-links.js'
import { offenderHref } from './resources/links.js'

const OFFENDERS = 5

/** What the panel opens with: what is in force, and who is being refused. */
export function homePage(
  { database, places, clock, switches, countsByUser }: Internals,
  { client, analytics }: SmartRateLimit,
  mount: string,
): NonNullable<AdminJSOptions['dashboard']> {
  async function readHome() {
    const [rules, active, overrides, summary, offenders] = await Promise.all([
      client.rateLimitRule.count(),
      client.rateLimitRule.count({ where: { isActive: true } }),
      client.rateLimitOverride.count({
        where: { OR: [{ expiresAt: null }, { expiresAt: { gt: new Date(clock.now()) } }] },
      }),
      analytics.getTrafficSummary({ days: 1 }),
      analytics.getTopOffenders({ days: 1, limit: OFFENDERS }),
    ])
    const keys = offenders.map(({ key }) => key)
    const counted = await reportsOf(database, clock)(countedClients(keys, 1))
    const dashboard = nearestMount(places.dashboards, mount)
    return {
      dashboard,
      notice: switches.useDynamicRules
        ? undefined
        : 'Rules and overrides are off on this server: they apply while useDynamicRules is true.',
      tiles: [
        { label: 'Active rules', value: formatCount(active), detail: `of ${formatCount(rules)}`, resource: 'rules' },
        { label: 'Overrides', value: formatCount(overrides), detail: 'in force', resource: 'overrides' },
        {
          label: 'Requests today',
          value: formatCount(summary.total),
          detail: `${formatCount(summary.blocked)} blocked (${formatRate(summary.block_rate)}), last 24 hours`,
          resource: 'events',
        },
      ],
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
