import { MAX_PATH_LENGTH } from '../../../ground/storable.js'
import type { FoundClient } from '../../../reports/find-clients.js'
import type { FoundTraffic } from '../../../reports/traffic.js'
import { foundClients } from '../client-views.js'
import { formatCount, formatRequests, offeredWindows, toMoment, visible, windowName } from '../format.js'
import {
  backFields,
  clientsHref,
  dashboardHref,
  eventsHref,
  type KeptView,
  overridesHref,
  searchHref,
} from '../links.js'
import { overrideRow } from '../overrides/overrides-page.js'
import type { RequestedWindow } from '../requested-view.js'
import { listedRule } from '../rules/listed-rule.js'
import { LIMIT_SETTINGS, ruleListHref } from '../rules/rules-page.js'
import { timeSelector } from '../time-selector.js'
import { type FoundBeside, type FoundPolicy, MAX_COUNT, MAX_ROWS } from './find-beside.js'

/** The groups that no other page lists: the search shows one of them alone, with more rows. */
export const GROUPS = ['paths', 'policies'] as const
type Group = (typeof GROUPS)[number]

/** The most rows of a group that is shown alone. */
const MAX_ALONE = 200
/** The most routes that a limit names. */
const MAX_ROUTES = 3

interface SearchView extends RequestedWindow, Pick<KeptView, 'back'> {
  readonly text: string
  /** The one group that is shown; undefined for all. */
  readonly only: Group | undefined
}

/** All that a text may mean. */
export interface Found extends FoundBeside {
  readonly clients: readonly FoundClient[]
}

/** Returns the context of `search-results.hbs`; without `found` nothing was searched for. */
export function searchContext(view: SearchView, nowMs: number, found?: Found) {
  const { text, only, window, typed, back } = view
  const groups = found === undefined ? [] : groupViews(found, view, nowMs)
  const isTooLong = text.length > MAX_PATH_LENGTH
  return {
    found,
    page: {
      title: found === undefined ? 'Search' : `Search for ${visible(text)}`,
      subtitle: 'Rate limits',
      q: text,
      shown: found === undefined ? '' : visible(text),
      window: windowName(window),
      windows: offeredWindows(window),
      time: timeSelector({ window, typed }, nowMs, (each) => searchHref(text, each, back, only)),
      kept: [
        { name: 'q', value: text },
        ...(only === undefined ? [] : [{ name: 'in', value: only }]),
        ...backFields(back),
      ],
      problem: isTooLong
        ? `A search takes ${formatCount(MAX_PATH_LENGTH)} characters at most; this text has ${formatCount(text.length)}.`
        : undefined,
      groups,
      back_href: only && searchHref(text, window, back),
      now: toMoment(nowMs),
    },
  }
}

/** A line of a group that is no table. */
interface FoundRow {
  readonly name: string
  readonly href: string
  readonly state?: { readonly text: string; readonly tone: string }
  readonly facts: string
}

interface FoundGroup {
  readonly id: string
  readonly title: string
  readonly count: string
  readonly all?: { readonly href: string; readonly text: string } | undefined
  readonly rows?: readonly FoundRow[]
  readonly clients?: ReturnType<typeof foundClients>
}

function groupViews(found: Found, view: SearchView, nowMs: number): FoundGroup[] {
  const { text, only, window, back } = view
  const rows = only === undefined ? MAX_ROWS : MAX_ALONE
  const group = (id: string, title: string, count: number, allHref: string, content: Partial<FoundGroup>) => {
    const words = count >= MAX_COUNT ? `${formatCount(MAX_COUNT)} or more` : formatCount(count)
    const all = count > rows && only === undefined ? { href: allHref, text: `All ${words}` } : undefined
    return count === 0 || (only !== undefined && only !== id) ? [] : [{ id, title, count: words, all, ...content }]
  }
  const { clients, rules, overrides, paths, policies } = found
  const alone = (each: Group) => searchHref(text, window, back, each)
  return [
    ...group('clients', 'Clients', clients.length, clientsHref(text, window, back), {
      clients: foundClients(clients.slice(0, rows), window, back),
    }),
    ...group('rules', 'Rules', rules.count, rulesHref(text), {
      rows: rules.rules.map((rule) => ruleRow(rule, nowMs)),
    }),
    ...group('overrides', 'Overrides and bans', overrides.count, overridesHref(text), {
      rows: overrides.overrides.map((override) => foundOverride(overrideRow(override, nowMs))),
    }),
    ...group('paths', 'Paths', paths.length, alone('paths'), {
      rows: paths.slice(0, rows).map((path) => pathRow(path, view)),
    }),
    ...group('policies', 'Policies', policies.length, alone('policies'), {
      rows: policies.slice(0, rows).map((policy) => policyRow(policy, view)),
    }),
  ]
}

function rulesHref(text: string): string {
  const listing = { text, state: undefined, effect: undefined, group: undefined, order: undefined, isDescending: false }
  return ruleListHref({ listing, page: 1 })
}

function ruleRow(rule: FoundBeside['rules']['rules'][number], nowMs: number): FoundRow {
  const { name, href, method, pattern, condition, rate, state, tone, counts_only } = listedRule(rule, nowMs)
  return {
    name,
    href,
    state: { text: state, tone },
    facts: facts(rate, `${method} ${pattern}`.trim(), condition && `if ${condition}`, counts_only ? 'counts only' : ''),
  }
}

function foundOverride({ client, href, effect, tone, path, end, who, note }: ReturnType<typeof overrideRow>): FoundRow {
  return {
    name: client,
    href,
    state: { text: effect, tone },
    facts: facts(end, path && `where the path matches ${path}`, who, note && `“${note}”`),
  }
}

function pathRow({ name, ...counts }: FoundTraffic, { window, back }: SearchView): FoundRow {
  return {
    name: visible(name),
    href: dashboardHref(window, { listing: back.listing, path: name }),
    facts: trafficWords(counts),
  }
}

function policyRow({ name, limit, traffic }: FoundPolicy, { window }: SearchView): FoundRow {
  const routes = limit?.routes.slice(0, MAX_ROUTES).map(visible) ?? []
  const others = (limit?.routes.length ?? 0) - routes.length
  return {
    name: visible(name),
    href: eventsHref(window, { rule: name }),
    facts:
      limit === undefined
        ? traffic === undefined
          ? 'Decisions of operators and lists'
          : facts('a rule that no longer exists', trafficWords(traffic))
        : facts(
            limit.rate ?? 'a function of the request',
            `set by ${LIMIT_SETTINGS[limit.setting]}`,
            routes.join(', ') + (others > 0 ? ` and ${formatCount(others)} more` : ''),
          ),
  }
}

function trafficWords({ total, blocked, denied }: Omit<FoundTraffic, 'name'>): string {
  return facts(
    formatRequests(total + denied),
    blocked === 0 ? '' : `${formatCount(blocked)} refused`,
    denied === 0 ? '' : `${formatCount(denied)} denied`,
  )
}

function facts(...texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(' · ')
}
