import { isNetwork } from '../../clients/client-networks.js'
import type { Geo } from '../../clients/geo.js'
import type { NamedLimit } from '../../plugin/parts/limits-in-force.js'
import { type ClientCounts, NO_REQUESTS } from '../../reports/client-counts.js'
import type { ClientDetail, ClientPolicy } from '../../reports/client-detail.js'
import { hasEnded, type ReportWindow, windowFor } from '../../reports/report-window.js'
import { measureOf } from '../../reports/top-clients.js'
import type { Notice } from '../shell/notice-cookie.js'
import { describeChange } from './changes/change-sentence.js'
import { type Chart, type ChartOptions, drawChart } from './chart.js'
import { clientMenu, firstOf } from './client-menu.js'
import { type Offer, overridableParts, overrideClientFor } from './client-offer.js'
import { type ClientReport, changesOf, overridesInForce, type Standings, usedNow } from './client-state.js'
import { foundClients } from './client-views.js'
import { eventRow, latestTitle } from './event-row.js'
import { figures } from './figures.js'
import { formatCount, formatTime, offeredWindows, rateWords, toMoment, visible, windowName } from './format.js'
import {
  clientFields,
  clientHref,
  clientsHref,
  dashboardHref,
  eventsCsvHref,
  eventsHref,
  following,
  overridesHref,
} from './links.js'
import { type LogState, lacksAllowedClients, logNotices } from './log-state.js'
import { firstWords } from './override-words.js'
import type { ClientView } from './requested-view.js'
import { isByField } from './search/meant-clients.js'
import { stackOutcomes, toOutcomes } from './stack.js'
import { refusedChoices, shownSeries, timeSelector, toggleSeries } from './time-selector.js'
import { usageHref } from './usage/usage-page.js'
import { whereabouts } from './whereabouts.js'

/** The parts of the page of a client beside its report. */
interface ClientPageParts {
  readonly view: ClientView
  /** The time for which no newer report will be read for pages that follow. */
  readonly freshForMs: number
  /** Whether the client is the network that the log has instead of the addresses of its clients. */
  readonly isShortened: boolean
  limitNamed(policy: string): NamedLimit | undefined
  readonly offer: Offer
  /** The member of staff who looks at the page, where that name may act, and the token of the forms. */
  readonly acting: { readonly actor: string; readonly token: string } | undefined
  readonly notice: Notice | undefined
  /** Whether overrides have an effect on this server. */
  readonly appliesOverrides: boolean
  readonly log: LogState
  /** What files know of addresses; undefined where the app has none. */
  readonly geo: Geo | undefined
}

/** Returns the context of `client.hbs`: the unformatted report, and everything the page shows, formatted, in `page`. */
export function clientContext(report: ClientReport, parts: ClientPageParts) {
  const { detail, nowMs } = report
  const { client, recent_events } = detail
  const { window, onlyRefused } = parts.view
  const hrefFor = (changed: Partial<ClientView>) => {
    const next = { ...parts.view, ...changed }
    return clientHref(client, next.window, next.back, next.live, next)
  }
  const { log, acting, notice, freshForMs, geo } = parts
  const { back, live } = parts.view
  const { first } = parts.offer
  const isNamed = first !== undefined && notice?.text.includes(firstWords(first)) === true
  const has_traffic = detail.requests > 0
  const eventsFor = (each: ReportWindow) =>
    eventsHref(each, {
      [isNetwork(client) ? 'network' : 'client']: client,
      outcome: onlyRefused ? 'refused' : undefined,
    })
  const ended = hasEnded(window, nowMs)
  const fields = clientFields(window, back, live, parts.view).map(([name, value]) => ({ name, value }))
  return {
    ...detail,
    page: {
      title: visible(client),
      subtitle: 'Rate limits',
      name: visible(client),
      whereabouts: whereabouts(client, geo),
      window: windowName(window),
      windows: offeredWindows(window),
      time: timeSelector(parts.view, nowMs, (window) => hrefFor({ window })),
      only: refusedChoices(parts.view, (display) => hrefFor({ show: undefined, ...display })),
      kept: [{ name: 'client', value: client }, ...fields.filter(({ name }) => !WINDOW_NAMES.includes(name))],
      live: ended ? undefined : following(live, freshForMs, (live) => hrefFor({ live })),
      notices: logNotices(log, has_traffic),
      notice: notice && { ...notice, text: visible(notice.text), first: isNamed && firstOf(first, parts.view) },
      dashboard_href: dashboardHref(window, back),
      overrides_href: overridesHref(client),
      in_force: overridesInForce(report, fields, acting?.token),
      actions: acting && {
        menu: clientMenu(client, parts.offer, {
          token: acting.token,
          fields,
          kept: parts.view,
          typed: notice?.succeeded === false ? notice.typed : undefined,
        }),
      },
      unnamed: acting === undefined,
      shortened: parts.isShortened,
      cannot: overrideClientFor(client) === undefined,
      parts: overridableParts(client).map((part) => ({ name: visible(part), href: clientHref(part, window, back) })),
      overrides_off: !parts.appliesOverrides,
      history: changesOf(detail),
      has_traffic,
      would_be: detail.would_be > 0,
      figures: figures(toOutcomes(detail), {
        onlyBlocked: lacksAllowedClients(log),
        toggle: (series) => toggleSeries(parts.view, series, hrefFor),
      }),
      first_seen: seenAt(detail.first_seen),
      last_seen: seenAt(detail.last_seen),
      chart: drawClientChart(detail, {
        rates: !lacksAllowedClients(log),
        series: shownSeries(parts.view),
        hasEnded: ended,
        pages: {
          ofRange: (range) => hrefFor({ window: range }),
          ofMinute: (range) => eventsFor(range),
        },
      }),
      ...policies(report, parts, ended),
      paths: paths(detail, window, onlyRefused),
      members: foundClients(report.members, window, back),
      members_href: clientsHref(client, window, back),
      several: report.members.length > 0,
      usage: report.usage.map(({ amount, requests, ...each }) => ({
        ...each,
        amount: formatCount(Number(amount)),
        requests: formatCount(Number(requests)),
        href: usageHref({ unit: each.unit, since: each.day.slice(0, 7), by: 'day', client }),
      })),
      kind: isNetwork(client) ? 'network' : 'client',
      by_field: isByField(client),
      events: recent_events.map((event) => eventRow(event, { window, back }, geo)),
      recent: latestTitle(recent_events, onlyRefused ? 'refused' : ''),
      events_href: eventsFor(window),
      events_csv_href: eventsCsvHref(eventsFor({ since: windowFor(window, nowMs).startMs, until: window.until })),
      is_logging: log.switches.enabled && log.switches.logEvents !== false,
      now: toMoment(nowMs),
    },
  }
}

/** The policies that are listed: the clients of a network may meet thousands. */
const MAX_POLICIES = 100
/** The parameters of a window. */
const WINDOW_NAMES = ['days', 'minutes', 'since', 'until']

function policies(
  { detail: { by_policy }, members, standings, rulePages }: ClientReport,
  { limitNamed, view: { onlyRefused } }: ClientPageParts,
  ended: boolean,
) {
  const by = onlyRefused ? 'refused' : 'requests'
  const measure = (counts: ClientCounts) => measureOf(counts, by)
  const most = Math.max(0, ...by_policy.map(measure))
  const all = onlyRefused
    ? by_policy.filter((each) => measure(each) > 0).toSorted((one, other) => measure(other) - measure(one))
    : [...by_policy, ...othersMet(by_policy, standings)]
  const listed = all.slice(0, MAX_POLICIES).map((each) => {
    const now = standings.ofPolicies.get(each.policy)
    const named = ended ? undefined : (now ?? limitNamed(each.policy))
    return {
      policy: visible(each.policy),
      href: rulePages.get(each.policy),
      rate: named?.rate ? visible(rateWords(named.rate, named.unit)) : '',
      // A network's clients each have their own, and where all was denied none.
      standing:
        members.length > 0 && each.denied < each.requests ? '' : now === undefined ? standingThen(each) : usedNow(now),
      last_seen: now === undefined ? seenAt(each.last_seen) : undefined,
      decided: each.requests > 0,
      requests: formatCount(each.requests),
      over_limit: formatCount(each.over_limit),
      would_be: formatCount(each.would_be),
      denied: formatCount(each.denied),
      segments: stackOutcomes(shownOutcomes(each, onlyRefused), most),
    }
  })
  return { policies: listed, more_policies: all.length > listed.length && formatCount(all.length - listed.length) }
}

/** Returns the limits that the client meets beside those that decided. */
function othersMet(by_policy: readonly ClientPolicy[], { ofPolicies }: Standings): ClientPolicy[] {
  const met = new Set(by_policy.map(({ policy }) => policy))
  const others = [...ofPolicies.keys()].filter((name) => !met.has(name))
  return others.map((policy) => ({ ...NO_REQUESTS, policy, last_seen: '', count: 0, limit: 0 }))
}

/** A denial has the count 1 and the limit 0. */
function standingThen({ count, limit }: ClientPolicy): string {
  return limit === 0 ? 'Nothing allowed' : `${formatCount(count)} of ${formatCount(limit)}`
}

function paths({ by_path }: ClientDetail, window: ReportWindow, onlyRefused = false) {
  const most = Math.max(0, ...by_path.map((each) => measureOf(each, onlyRefused ? 'refused' : 'requests')))
  return by_path.map((each) => ({
    path: visible(each.path),
    href: dashboardHref(window, { path: each.path }),
    requests: formatCount(each.requests),
    over_limit: formatCount(each.over_limit),
    would_be: formatCount(each.would_be),
    denied: formatCount(each.denied),
    segments: stackOutcomes(shownOutcomes(each, onlyRefused), most),
  }))
}

/** Returns the outcomes that a bar of a table shows. */
function shownOutcomes(counts: ClientCounts, onlyRefused = false) {
  const outcomes = toOutcomes(counts)
  return onlyRefused ? { ...outcomes, allowed: 0, 'would-be-refused': 0 } : outcomes
}

function seenAt(iso: string | null) {
  return iso === null ? undefined : toMoment(Date.parse(iso))
}

/** Draws the requests of a client by their outcomes, and marks the changes of its overrides. */
function drawClientChart(
  { timeline: { bar_ms, bars }, history }: ClientDetail,
  options: Omit<ChartOptions, 'changes'>,
): Chart {
  const startMs = bars[0]?.start_ms ?? 0
  const endMs = startMs + bars.length * bar_ms
  const changes = history.map((change) => {
    const at_ms = change.changedAt.getTime()
    return { at_ms, href: `#change-${change.id}`, text: `${formatTime(at_ms)} UTC: ${describeChange(change).sentence}` }
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
    { ...options, changes: changes.filter(({ at_ms }) => at_ms >= startMs && at_ms <= endMs) },
  )
}
