/** The sentence that leads the dashboard: what causes the refusals of its window. */

import { isNetwork } from '../../clients/client-networks.js'
import { HOUR_MS } from '../../ground/time/clock.js'
import { allRequests } from '../../reports/breakdown.js'
import { sumRequests } from '../../reports/client-counts.js'
import { networkAround } from '../../reports/dashboard-clients.js'
import type { DashboardReport } from '../../reports/dashboard-report.js'
import { isFiltering } from '../../reports/filter.js'
import { hasEnded, windowFor } from '../../reports/report-window.js'
import { formatCount, formatRequests, lowerFirst, visible, windowName } from './format.js'
import { backTo, clientHref, dashboardHref, type View } from './links.js'
import { groupNeighbours } from './neighbours.js'

/** A client, a network or a rule, with the number of its requests that were refused. */
export interface Cause {
  /** The words before the name, such as `Rule `. */
  readonly before?: string
  readonly name: string
  readonly href?: string | undefined
  readonly refused: number
  /** Whether the sentence is about several. */
  readonly isPlural?: boolean
  /** That it is denied, and until when, as `Denied until …`; undefined where it is not. */
  readonly denied?: string | undefined
}

interface LeadCounts {
  readonly requests: number
  readonly blocked: number
  readonly would_block: number
  readonly denied: number
}

interface LeadOptions {
  /** The causes by whom was refused; the first one goes before another with as many refusals. */
  readonly clients: readonly Cause[]
  /** The causes by what refused. */
  readonly rules: readonly Cause[]
  /** The name of the window, such as `last 24 hours`. */
  readonly window: string
  readonly isFiltered: boolean
  /** Whether the log holds refusals only: the number of all requests is then unknown. */
  readonly onlyBlocked: boolean
}

/** The parts of the sentence, for `dashboard.hbs`. */
export interface Lead {
  readonly before: string
  /** Empty where nothing stands out. */
  readonly name: string
  readonly href: string | undefined
  readonly text: string
}

/** The least share of all refusals that a cause leads with: a smaller one is one of many. */
const LEADING_SHARE = 0.25

/** Returns the sentence; undefined where there were no requests. */
export function leadSentence(counts: LeadCounts, options: LeadOptions): Lead | undefined {
  if (counts.requests === 0) return undefined
  if (counts.blocked === 0) return sentence(nothingRefused(counts, options))
  const [client, rule] = [largest(options.clients), largest(options.rules)]
  const least = LEADING_SHARE * counts.blocked
  const cause = [client, rule].find((each) => each !== undefined && each.refused >= least)
  if (cause === undefined) return sentence(someRefused(counts, options))
  const { before = '', name, href, refused, isPlural = false, denied } = cause
  const share = refused >= counts.blocked ? 'all' : `${Math.floor((100 * refused) / counts.blocked)}%`
  const refusals = options.isFiltered ? 'refusals that match the filter' : 'refusals'
  const verb = denied !== undefined ? 'caused' : isPlural ? 'cause' : 'causes'
  const since = denied === undefined ? '' : `; it is ${lowerFirst(denied)}`
  const text = ` ${verb} ${share} of the ${refusals} in the ${options.window}${since}.`
  return { before, name, href, text }
}

function largest(causes: readonly Cause[]): Cause | undefined {
  return causes.reduce<Cause | undefined>(
    (most, cause) => (cause.refused > (most?.refused ?? 0) ? cause : most),
    undefined,
  )
}

function sentence(text: string): Lead {
  return { before: '', name: '', href: undefined, text }
}

function nothingRefused({ would_block, denied }: LeadCounts, { window, isFiltered }: LeadOptions): string {
  const others = [
    ...(would_block === 0 ? [] : [`${formatCount(would_block)} would have been`]),
    ...(denied === 0 ? [] : [`${formatCount(denied)} ${denied === 1 ? 'was' : 'were'} denied`]),
  ]
  const request = isFiltered ? 'No request that matches the filter' : 'No request'
  const none = `${request} was refused in the ${window}`
  return others.length === 0 ? `${none}.` : `${none}; ${others.join(', ')}.`
}

function someRefused({ requests, blocked }: LeadCounts, { window, isFiltered, onlyBlocked }: LeadOptions): string {
  const all = isFiltered ? ' that match the filter' : ''
  const verb = blocked === 1 ? 'was' : 'were'
  return onlyBlocked
    ? `${formatRequests(blocked)}${all} ${verb} refused in the ${window}.`
    : `${formatCount(blocked)} of ${formatRequests(requests)}${all} ${verb} refused in the ${window}.`
}

/** An incident of a client or a network that goes on. */
export interface OngoingCause extends Cause {
  /** The beginning of the incident. */
  readonly fromMs: number
}

interface LeadSources {
  readonly incidents: readonly { readonly cause: OngoingCause | undefined }[]
  readonly onlyBlocked: boolean
  readonly nowMs: number
}

/** Returns the sentence of a dashboard. Its causes are rows that the page shows, so that it counts nothing again. */
export function dashboardLead(
  report: DashboardReport,
  view: View,
  { incidents, onlyBlocked, nowMs }: LeadSources,
): Lead | undefined {
  const { outcomes, filter, by_rule } = report
  const { window } = view
  const isFiltered = isFiltering(filter)
  const { startMs } = windowFor(window, nowMs)
  const ongoing = isFiltered || hasEnded(window, nowMs) ? [] : incidents.flatMap(({ cause }) => cause ?? [])
  return leadSentence(
    { ...outcomes, requests: allRequests(report.window) },
    {
      // The refusals of an incident are those of whole hours.
      clients: [
        ...ongoing.filter(({ fromMs }) => Math.floor(fromMs / HOUR_MS) * HOUR_MS >= startMs),
        ...(filter.key === undefined ? clientCauses(report, view, ongoing) : []),
      ],
      // A filter by a client or a rule has named the cause already.
      rules: (filter.rule === undefined ? by_rule.shares : []).map(({ name, blocked }) =>
        name === ''
          ? { name: 'Limits in the code', refused: blocked, isPlural: true }
          : {
              before: 'Rule ',
              name: visible(name),
              href: dashboardHref(window, { ...filter, rule: name }, view),
              refused: blocked,
            },
      ),
      window: windowName(window),
      isFiltered,
      onlyBlocked,
    },
  )
}

/**
 * Returns the listed networks and clients by their refusals. Clients that were only denied are not counted. An address in
 * the network of an incident that goes on stands for that network, which the page names below.
 *
 * @param ongoing the incidents, also those that began before the window
 */
export function clientCauses(
  { top_clients, top_networks, by }: Pick<DashboardReport, 'top_clients' | 'top_networks' | 'by'>,
  view: View,
  ongoing: readonly OngoingCause[],
): Cause[] {
  const cause = (client: string, refused: number): Cause => ({
    name: visible(isNetwork(client) ? client.replace(/^ip:/, '') : client),
    href: clientHref(client, view.window, backTo(view)),
    refused,
  })
  const ofNetwork = (client: string): Cause | undefined => {
    const network = networkAround(client)
    const members = top_clients.filter((listed) => networkAround(listed.client) === network)
    const found = cause(network, sumRequests(members).over_limit)
    const incident = network === client ? undefined : ongoing.find(({ name }) => name === found.name)
    return incident && { ...found, denied: incident.denied }
  }
  return [
    ...top_networks.map(({ network, over_limit }) => cause(network, over_limit)),
    ...groupNeighbours(top_clients, by).map(({ name, over_limit, members }) => {
      const refused = members.filter((member) => member.over_limit > 0)
      const [only = name] = refused.map(({ client }) => client)
      // Of a large network only some clients are listed.
      return refused.length > 1
        ? { ...cause(name, over_limit), before: `${formatCount(refused.length)} clients of `, isPlural: true }
        : (ofNetwork(only) ?? cause(only, over_limit))
    }),
  ]
}
