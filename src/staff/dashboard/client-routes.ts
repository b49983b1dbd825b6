/** The page of one client. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isNetwork } from '../../clients/client-networks.js'
import { type ClientEffect, clientEffect } from '../../reports/change-effects.js'
import { type ClientDetail, readClientDetail } from '../../reports/client-detail.js'
import { type FoundClient, findClients } from '../../reports/find-clients.js'
import { hasEnded } from '../../reports/report-window.js'
import { UsageReports } from '../../reports/usage.js'
import { takeNotice } from '../shell/notice-cookie.js'
import { lastParameter, requestedClient } from '../shell/request-query.js'
import { issueFormToken } from '../shell/staff-actions.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { actorWith } from '../shell/staff-member.js'
import { staffRoute } from '../shell/staff-routes.js'
import { offerFor, overrideClientFor, usualClient } from './client-offer.js'
import { clientContext } from './client-page.js'
import { type ClientReport, NO_STANDINGS, presentStandings, type Standings, withChargedRules } from './client-state.js'
import { searchHref } from './links.js'
import { readLogState } from './log-state.js'
import type { PageRoutes } from './page-routes.js'
import { type ClientView, isFollowing, isScript, readClientView, withoutStyle } from './requested-view.js'
import { findRulePages } from './rules/rule-links.js'
import { isSpelledClient, isUnknown } from './search/meant-clients.js'
import { SharedReports } from './shared-reports.js'

/** The number of overrides in force that are compared with the time before them. */
const MAX_EFFECTS = 3
/** The number of clients of a network that are listed; the page of clients has all. */
const MAX_LISTED = 10
/** The number of latest requests; the page of events has all. */
const LATEST = 20

/** The number of sums of a day that are shown. */
const MAX_USAGE = 10

const MissingClientError = createError('FST_RATE_LIMIT_MISSING_CLIENT', 'missing ?client= parameter', 400)

export function registerClientRoutes(routes: PageRoutes<'events' | 'hook' | 'inForce'>): void {
  const { app, pages, read, database, clock, settings, hook, inForce } = routes
  const { privacy } = settings
  const { limitNamed, overrideFor } = inForce

  const usage = new UsageReports(database, clock, privacy)
  const shared = new SharedReports<ClientReport>(clock)

  const isShortened = ({ client }: ClientDetail) => privacy?.isShortened(client) === true

  async function readClient(client: string, view: ClientView): Promise<ClientReport> {
    const detail = await read((snapshot) => readClientDetail(snapshot, client, view.window, LATEST, view.onlyRefused))
    const members = isNetwork(detail.client) ? await readMembers(detail.client, view) : []
    // The standing of now is none of a range that has ended.
    const isOne = members.length === 0 && !isShortened(detail) && !hasEnded(view.window, clock.now())
    // The standings are read before the limits are named: that brings the rules in force up to date.
    const standings = isOne ? await readStandings(detail) : NO_STANDINGS
    const met = [...detail.by_policy.map(({ policy }) => policy), ...standings.ofPolicies.keys()]
    return {
      detail,
      standings,
      members,
      effects: await readEffects(detail),
      usage: await fromDatabase(usage.latestOf(detail.client, MAX_USAGE)),
      rulePages: await findRulePages(database, [...new Set(met)]),
      nowMs: clock.now(),
    }
  }

  async function readStandings(detail: ClientDetail): Promise<Standings> {
    const standings = await presentStandings(detail, hook.explain, overrideFor)
    const charging = await fromDatabase(usage.policiesOf(detail.client))
    return withChargedRules(standings, detail.client, charging, inForce.askRule)
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
    if (!isSpelledClient(client) && isUnknown(result.detail)) {
      return reply.redirect(searchHref(client, view.window, view.back), 303)
    }
    const actor =
      overrideClientFor(result.detail.client) === undefined ? undefined : actorWith(request, 'writeOverrides')
    const context = clientContext(result, {
      view,
      freshForMs,
      isShortened: isShortened(result.detail),
      limitNamed,
      offer: offerFor(result.detail, limitNamed),
      acting: actor === undefined ? undefined : { actor, token: issueFormToken(request, reply, actor) },
      notice,
      appliesOverrides: settings.enabled && settings.useDynamicRules,
      log: readLogState(routes),
      geo: database.sources?.geo,
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

  app.get('/client.html', staffRoute('client-page'), showClient)
}
