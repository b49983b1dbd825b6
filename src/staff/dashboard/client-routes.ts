/** The page of one client, and the search that leads to it. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isNetwork } from '../../clients/client-networks.js'
import { type ClientEffect, clientEffect } from '../../reports/change-effects.js'
import { type ClientDetail, clientDetail } from '../../reports/client-detail.js'
import { type FoundClient, findClients } from '../../reports/find-clients.js'
import { hasEnded, type ReportWindow } from '../../reports/report-window.js'
import { topClients } from '../../reports/top-clients.js'
import { takeNotice } from '../shell/notice-cookie.js'
import { lastParameter, requestedClient, requestedSearchText } from '../shell/request-query.js'
import { issueFormToken } from '../shell/staff-actions.js'
import { actorWith } from '../shell/staff-member.js'
import { staffRoute } from '../shell/staff-routes.js'
import { offerFor, overrideClientFor, usualClient } from './client-offer.js'
import { clientContext } from './client-page.js'
import type { ClientReport } from './client-state.js'
import { presentStandings } from './client-state.js'
import { clientHref, searchHref } from './links.js'
import { readLogState } from './log-state.js'
import type { PageRoutes } from './page-routes.js'
import { type ClientView, isFollowing, isScript, readClientView, withoutStyle } from './requested-view.js'
import { findRulePages } from './rules/rule-links.js'
import { searchContext } from './search-page.js'
import { SharedReports } from './shared-reports.js'

/** The number of overrides in force that are compared with the time before them. */
const MAX_EFFECTS = 3
/** The number of clients that are listed where nothing is searched for. */
const MAX_LISTED = 20

const MissingClientError = createError('FST_RATE_LIMIT_MISSING_CLIENT', 'missing ?client= parameter', 400)

/** A client with its kind. */
const SPELLED = /^(?:(?:ip|user|header|cookie|route|key):|all$)/

/** Returns whether nothing is known of a client: no request of the window, no override and no history of one. */
function isUnknown({ requests, history, overrides }: ClientDetail): boolean {
  return requests === 0 && history.length === 0 && overrides.length === 0
}

export function registerClientRoutes({ app, internals, pages, read }: PageRoutes): void {
  const { clock, switches, privacy, limitNamed } = internals
  const limits = app.smartRateLimit

  const shared = new SharedReports<ClientReport>(clock)

  const isShortened = ({ client }: ClientDetail) => privacy?.isShortened(client) === true

  async function readClient(client: string, view: ClientView): Promise<ClientReport> {
    const detail = await read(clientDetail({ client, ...view.window }, view.onlyRefused))
    const members = isNetwork(detail.client) ? await readMembers(detail.client, view) : []
    // The standing of now is none of a range that has ended.
    const isOne = members.length === 0 && !isShortened(detail) && !hasEnded(view.window, clock.now())
    return {
      detail,
      // The standings are read before the limits are named: that brings the rules in force up to date.
      standings: isOne ? await presentStandings(detail, limits.explain) : new Map(),
      members,
      effects: await readEffects(detail),
      rulePages: await findRulePages(
        internals,
        detail.by_policy.map(({ policy }) => policy),
      ),
      nowMs: clock.now(),
    }
  }

  async function showClient(request: FastifyRequest, reply: FastifyReply) {
    const client = usualClient(requestedClient(request).trim())
    if (client === '') throw new MissingClientError()
    const view = readClientView((name) => lastParameter(request, name), clock.now())
    // The script of an open page must not take the notice of the page that follows an action.
    const notice = isScript(request) ? undefined : takeNotice(request, reply, client)
    // An action shows what came of it.
    const takesShared = notice === undefined && isFollowing(request)
    const name = JSON.stringify([client, view.window, view.onlyRefused])
    const { result, freshForMs } = await shared.read(name, takesShared, () => readClient(client, view))
    // The search knows what a bare address or id may mean, and never leads to a client of which nothing is known.
    if (!SPELLED.test(client) && isUnknown(result.detail)) {
      return reply.redirect(searchHref(client, view.window, view.back), 303)
    }
    const actor =
      overrideClientFor(result.detail.client) === undefined ? undefined : actorWith(request, 'writeOverrides')
    const context = clientContext(result, {
      view,
      freshForMs,
      isShortened: isShortened(result.detail),
      rateNamed: (policy) => limitNamed(policy)?.rate,
      offer: offerFor(result.detail, limitNamed),
      acting: actor === undefined ? undefined : { actor, token: issueFormToken(request, reply, actor) },
      notice,
      appliesOverrides: switches.enabled && switches.useDynamicRules,
      log: readLogState(internals),
    })
    return pages.send(reply, 'client', { ...context, ...withoutStyle(request) })
  }

  async function readEffects({
    client,
    overrides,
    requests,
  }: ClientDetail): Promise<ReadonlyMap<number, ClientEffect>> {
    if (requests === 0) return new Map()
    const effects = overrides.slice(0, MAX_EFFECTS).map(async ({ id, updated_at }) => {
      return [id, await read(clientEffect({ client, atMs: Date.parse(updated_at) }))] as const
    })
    return new Map(await Promise.all(effects))
  }

  async function readMembers(client: string, { window, onlyRefused }: ClientView): Promise<FoundClient[]> {
    // The network itself may be among them.
    const found = await read(
      findClients({
        text: client,
        ...window,
        limit: MAX_LISTED + 1,
        by: onlyRefused ? 'refused' : 'requests',
      }),
    )
    return found.filter((found) => found.client !== client).slice(0, MAX_LISTED)
  }

  async function search(request: FastifyRequest, reply: FastifyReply) {
    const text = requestedSearchText(request)
    const kept = readClientView((name) => lastParameter(request, name), clock.now())
    const { window, back } = kept
    if (text === '') {
      const busiest = await read(topClients({ ...window, limit: MAX_LISTED, by: 'requests' }))
      return pages.send(reply, 'search-results', searchContext(text, busiest, kept, clock.now()))
    }
    const found = await meantClients(text, await read(findClients({ text, ...window })), window)
    const [only] = found
    if (only !== undefined && found.length === 1) return reply.redirect(clientHref(only.client, window, back), 303)
    return pages.send(reply, 'search-results', searchContext(text, found, kept, clock.now()))
  }

  /** Returns those that are meant: not those that the text spells, but nothing is known of, since a word may be anything. */
  async function meantClients(
    text: string,
    found: readonly FoundClient[],
    window: ReportWindow,
  ): Promise<readonly FoundClient[]> {
    // The page of a network lists the clients in it, and can block all of them.
    const network = found.find(({ client, is_exact }) => is_exact && isNetwork(client))
    if (network !== undefined) return [network]
    const active = found.filter(({ requests }) => requests > 0)
    if (active.length > 0) return active
    // An address has a page before its first request, too.
    if (SPELLED.test(text) || found.some(({ client }) => client.startsWith('ip:'))) return found
    const details = await Promise.all(found.map(({ client }) => read(clientDetail({ client, ...window, recent: 1 }))))
    return found.filter((_, index) => {
      const detail = details[index]
      return detail !== undefined && !isUnknown(detail)
    })
  }

  app.get('/client.html', staffRoute('client-page'), showClient)
  app.get('/search.html', staffRoute('client-search'), search)
}
