import { isNetwork } from '../../clients/client-networks.js'
import type { ClientDetail, ClientPolicy } from '../../reports/client-detail.js'
import type { ClientEvent } from '../../reports/recent-events.js'
import type { Notice } from '../shell/notice-cookie.js'
import { describeChange } from './changes/change-sentence.js'
import { type Chart, drawChart } from './chart.js'
import { BLOCKS, KEEPS, type Offer, overridableParts, overrideClientFor } from './client-offer.js'
import { type ClientReport, changesOf, overridesInForce, usedNow } from './client-state.js'
import { formatCount, formatRate, formatTime, offeredWindows, toMoment, visible, windowName } from './format.js'
import {
  clientFields,
  clientHref,
  dashboardHref,
  explainHref,
  following,
  type KeptView,
  overridesHref,
} from './links.js'
import { type LogState, logNotices, logsOnlyBlocked } from './log-state.js'
import { spellSeen } from './override-actions.js'
import { firstWords } from './override-words.js'
import type { ClientView } from './requested-view.js'
import { foundClients } from './search-page.js'
import { stackOutcomes, toOutcomes } from './stack.js'

/** What the page of a client shows beside its report. */
interface ClientPageParts {
  readonly view: ClientView
  /** How long no newer report will be read for pages that follow. */
  readonly freshForMs: number
  /** Whether it is the network that the log has instead of the addresses of its clients. */
  readonly isShortened: boolean
  readonly rateNamed: (policy: string) => string | undefined
  readonly offer: Offer
  /** Who looks at the page, where that name may act, and the token of the forms. */
  readonly acting: { readonly actor: string; readonly token: string } | undefined
  readonly notice: Notice | undefined
  /** Whether overrides have an effect on this server. */
  readonly appliesOverrides: boolean
  readonly log: LogState
}

/** Returns the context of `client.hbs`: the unformatted report, and everything the page shows, formatted, in `page`. */
export function clientContext(report: ClientReport, parts: ClientPageParts) {
  const { detail, nowMs } = report
  const { client, days, recent_events } = detail
  const { log, acting, notice, freshForMs } = parts
  const { back, live } = parts.view
  const { first } = parts.offer
  const isNamed = first !== undefined && notice?.text.includes(firstWords(first)) === true
  const has_traffic = detail.requests > 0
  const fields = clientFields(days, back, live).map(([name, value]) => ({ name, value }))
  return {
    ...detail,
    page: {
      title: visible(client),
      subtitle: 'Rate limits',
      name: visible(client),
      window: windowName(days),
      windows: offeredWindows(days),
      kept: [{ name: 'client', value: client }, ...fields.filter(({ name }) => name === 'back' || name === 'live')],
      live: following(live, freshForMs, (its) => clientHref(client, days, back, its)),
      notices: logNotices(log, has_traffic),
      notice: notice && { ...notice, text: visible(notice.text), first: isNamed && firstOf(first, parts.view) },
      dashboard_href: dashboardHref(days, back),
      overrides_href: overridesHref(client),
      in_force: overridesInForce(report, fields, acting?.token),
      actions: acting && actions(detail, parts, fields, acting.token),
      unnamed: acting === undefined,
      shortened: parts.isShortened,
      cannot: overrideClientFor(client) === undefined,
      parts: overridableParts(client).map((part) => ({ name: visible(part), href: clientHref(part, days, back) })),
      overrides_off: !parts.appliesOverrides,
      history: changesOf(detail),
      has_traffic,
      would_be: detail.would_be > 0,
      figures: figures(detail, logsOnlyBlocked(log)),
      first_seen: seenAt(detail.first_seen),
      last_seen: seenAt(detail.last_seen),
      chart: drawClientChart(detail, !logsOnlyBlocked(log)),
      policies: policies(report, parts),
      paths: paths(detail),
      members: foundClients(report.members, days, back),
      several: report.members.length > 0,
      events: recent_events.map((event) => eventRow(event, { days, back })),
      recent: recent_events.length === 1 ? 'Latest request' : `Latest ${recent_events.length} requests`,
      is_logging: log.switches.enabled && log.switches.logEvents !== false,
      now: toMoment(nowMs),
    },
  }
}

function figures(detail: ClientDetail, onlyBlocked: boolean) {
  const { requests, over_limit, would_be, denied } = detail
  const counts = toOutcomes(detail)
  const figure = (label: string, count: number, outcome?: string) => ({
    label,
    value: formatCount(count),
    share: outcome === undefined || onlyBlocked || requests === 0 ? '' : formatRate(count / requests),
    outcome,
  })
  return [
    figure('Requests', requests),
    ...(onlyBlocked ? [] : [figure('Allowed', counts.allowed, 'allowed')]),
    figure('Over the limit', over_limit, 'blocked'),
    figure('Would be refused', would_be, 'would-block'),
    figure('Denied', denied, 'denied'),
  ]
}

function actions(
  { client }: ClientDetail,
  { offer, notice, view: kept }: ClientPageParts,
  fields: readonly { readonly name: string; readonly value: string }[],
  token: string,
) {
  const { own, beside, first, from, raises } = offer
  const inForce = beside ?? own
  const typed = notice?.typed ?? {}
  return {
    token,
    client,
    fields,
    seen: spellSeen(own),
    beside: spellSeen(beside),
    algorithm: from?.algorithm ?? 'fixed_window',
    changes: inForce !== undefined,
    open: notice?.succeeded === false,
    is_blocked: inForce?.effect === 'deny',
    is_allowed: inForce?.effect === 'allow',
    from: from && { ...from, rate: visible(from.rate) },
    first: first && { ...firstOf(first, kept), is_block: first.effect === 'deny' },
    is_network: isNetwork(client),
    raises,
    rate: typed.rate ?? from?.rate ?? '',
    length: typed.length ?? '2h',
    note: typed.note ?? '',
    blocks: BLOCKS,
    keeps: KEEPS.map((keep) => ({ ...keep, selected: keep.value === typed.keep })),
  }
}

/** Returns the client whose override goes first, with the page on which that is ended. */
function firstOf({ client }: { readonly client: string }, { days, back }: KeptView) {
  return { name: visible(client), href: clientHref(client, days, back) }
}

function policies(
  { detail: { by_policy }, members, standings, rulePages }: ClientReport,
  { rateNamed }: ClientPageParts,
) {
  const most = Math.max(0, ...by_policy.map(({ requests }) => requests))
  return by_policy.map((its) => {
    const now = standings.get(its.policy)
    const rate = now?.rate ?? rateNamed(its.policy)
    return {
      policy: visible(its.policy),
      href: rulePages.get(its.policy),
      rate: rate === undefined ? '' : visible(rate),
      // Each client of a network has its own, and where all was denied none.
      standing:
        members.length > 0 && its.denied < its.requests ? '' : now === undefined ? standingThen(its) : usedNow(now),
      last_seen: now === undefined ? seenAt(its.last_seen) : undefined,
      requests: formatCount(its.requests),
      over_limit: formatCount(its.over_limit),
      would_be: formatCount(its.would_be),
      denied: formatCount(its.denied),
      segments: stackOutcomes(toOutcomes(its), most),
    }
  })
}

/** A denial has the count 1 and the limit 0. */
function standingThen({ count, limit }: ClientPolicy): string {
  return limit === 0 ? 'Nothing allowed' : `${formatCount(count)} of ${formatCount(limit)}`
}

function paths({ days, by_path }: ClientDetail) {
  const most = by_path[0]?.requests ?? 0
  return by_path.map((its) => ({
    path: visible(its.path),
    href: dashboardHref(days, { path: its.path }),
    requests: formatCount(its.requests),
    over_limit: formatCount(its.over_limit),
    would_be: formatCount(its.would_be),
    denied: formatCount(its.denied),
    segments: stackOutcomes(toOutcomes(its), most),
  }))
}

const DECISIONS: Readonly<Record<string, readonly [decision: string, text: string]>> = {
  allowed: ['allowed', 'Allowed'],
  denied: ['denied', 'Denied'],
  unavailable: ['blocked', 'No store answered'],
}

function eventRow(event: ClientEvent, kept: KeptView) {
  const overLimit = event.allowed
    ? (['over-limit', 'Would be refused'] as const)
    : (['blocked', 'Over the limit'] as const)
  const [decision, decision_text] = DECISIONS[event.outcome] ?? overLimit
  return {
    ...seenAt(event.timestamp),
    decision,
    decision_text,
    method: visible(event.method),
    path: visible(event.path),
    client: visible(event.client),
    client_href: clientHref(event.client, kept.days, kept.back),
    why_href: explainHref(event, kept, event.id),
    usage: event.outcome === 'denied' ? '' : `${formatCount(event.count)} of ${formatCount(event.limit)}`,
    policy: visible(event.policy),
  }
}

function seenAt(iso: string | null) {
  return iso === null ? undefined : toMoment(Date.parse(iso))
}

/**
 * Draws the requests of a client by their outcomes, and marks the changes of its overrides.
 *
 * @param rates whether the share of refusals is meaningful
 */
function drawClientChart({ timeline: { bar_ms, bars }, history }: ClientDetail, rates: boolean): Chart {
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
    { rates, changes: changes.filter(({ at_ms }) => at_ms >= startMs && at_ms <= endMs) },
  )
}
