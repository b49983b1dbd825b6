import { createHash } from 'node:crypto'
import createError from '@fastify/error'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { DAY_MS, SECOND_MS } from '../../ground/time/clock.js'
import type { Parts } from '../../plugin/parts.js'
import { CSV_LIMIT, csvRows } from '../../reports/csv.js'
import { networkAround } from '../../reports/dashboard-clients.js'
import { type DashboardReport, dashboardReport } from '../../reports/dashboard-report.js'
import { subjectOf } from '../../reports/incidents/incident.js'
import { type IncidentStory, incidentStories } from '../../reports/incidents/incidents.js'
import { countedClients, offenderDetail, readKey } from '../../reports/offender-detail.js'
import { topOffenders } from '../../reports/ranking.js'
import { closedHourCacheFor, coverageFor, createReportRunner, type Report } from '../../reports/report.js'
import { topClients } from '../../reports/top-clients.js'
import { DASHBOARD_NOTICE, takeNotice } from '../shell/notice-cookie.js'
import type { Pages, SharedHtml } from '../shell/pages.js'
import {
  DEFAULT_DAYS,
  lastParameter,
  requestedDays,
  requestedKey,
  requestedPath,
  requestedSearch,
} from '../shell/request-query.js'
import { issueFormToken } from '../shell/staff-actions.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { actorWith } from '../shell/staff-member.js'
import { staffRoute } from '../shell/staff-routes.js'
import { registerActionRoutes } from './action-routes.js'
import { registerAlertRoutes } from './alerts/alert-routes.js'
import { registerChangeRoutes } from './changes/change-routes.js'
import { createQuickActions } from './client-menu.js'
import { registerClientRoutes } from './client-routes.js'
import { registerCounterRoutes } from './counters/counter-routes.js'
import { dashboardContext, type Shown } from './dashboard-page.js'
import { registerEventsRoutes } from './events-routes.js'
import { registerExchangeRoutes } from './exchange/exchange-routes.js'
import { registerExplainRoutes } from './explain-routes.js'
import { curlLine } from './first-request.js'
import { registerIncidentActions, registerIncidentLink } from './incidents/incident-routes.js'
import { incidentViews } from './incidents/incident-views.js'
import { eventsHref, filterEntries } from './links.js'
import { readLogState } from './log-state.js'
import { offenderContext } from './offender-page.js'
import { registerOverrideRoutes } from './overrides/override-routes.js'
import { commonClient } from './panel-links.js'
import { registerRaiseForm } from './raise-form.js'
import {
  isFollowing,
  isScript,
  type RequestedView,
  type RequestedWindow,
  readClientView,
  requestedView,
  withoutStyle,
} from './requested-view.js'
import { findRulePages, type RulePageLinks } from './rules/rule-links.js'
import { registerRuleRoutes } from './rules/rule-routes.js'
import { registerSearchRoutes } from './search/search-routes.js'
import { sendCsv } from './send-csv.js'
import { SharedReports } from './shared-reports.js'
import { readRange } from './time-range.js'
import { registerTokenRoutes } from './tokens/token-routes.js'
import { registerUsageRoutes } from './usage/usage-routes.js'

const NotFoundError = createError('FST_RATE_LIMIT_NOT_FOUND', 'There is no such page.', 404)
const MissingKeyError = createError('FST_RATE_LIMIT_MISSING_KEY', 'missing ?key= parameter', 400)

/** The most incidents on top of the dashboard: with more of them, the list of clients says more. Links lead to those of a range. */
const MAX_INCIDENTS = 10
const MAX_OF_RANGE = 50
/** The events that the page of a key lists. */
const LATEST_EVENTS = 50

interface DatedReport {
  readonly report: DashboardReport
  /** Those that go on; of a range, all of it. */
  readonly incidents: readonly IncidentStory[]
  /** Of their policies. */
  readonly rulePages: RulePageLinks
  readonly readAtMs: number
  /** The pages that follow it. */
  readonly html: SharedHtml
}

/**
 * Registers the routes behind the guard, relative to the dashboard.
 *
 * @param mount the dashboard's path, as browsers request it
 */
export function registerReportRoutes(app: FastifyInstance, parts: Parts, pages: Pages, mount: string): void {
  const { database, clock, settings, hook, inForce } = parts
  const { privacy } = settings
  const reports = createReportRunner(database, clock, coverageFor(settings.logEvents), privacy)
  closedHourCacheFor(database).expect('refused', DEFAULT_DAYS * DAY_MS, clock.now())
  const read = <Result>(report: Report<Result>) => fromDatabase(reports(report))
  const routes = { ...parts, app, pages, mount, read }

  // The network of a pseudonym is not known.
  const hasNetworks = privacy?.addresses !== 'pseudonym'
  const shared = new SharedReports<DatedReport>(clock)

  async function readDated(view: RequestedView): Promise<DatedReport> {
    const range = view.window.since === undefined ? undefined : view.window
    const [report, incidents] = await Promise.all([
      read(
        dashboardReport({
          ...view.window,
          filter: view.filter,
          listing: view.listing,
          onlyRefused: view.onlyRefused,
          hasOffenders: pages.showOffenders,
          templateFor: await hook.findTemplates(),
        }),
      ),
      read(incidentStories(range === undefined ? MAX_INCIDENTS : MAX_OF_RANGE, range)),
    ])
    const policies = incidents.flatMap((incident) => incident.policies)
    const rulePages = await findRulePages(database, [...new Set(policies)])
    return { report, incidents, rulePages, readAtMs: clock.now(), html: new Map() }
  }

  async function showDashboard(request: FastifyRequest, reply: FastifyReply) {
    // The relative links of the page need the slash.
    if (!requestedPath(request).endsWith('/')) return reply.redirect(`dashboard/${requestedSearch(request)}`)
    const view = requestedView(request, hasNetworks, clock.now())
    const { window, filter, listing, onlyRefused } = view
    const name = JSON.stringify([window, filterEntries(filter), listing, onlyRefused])
    // The script of an open page must not take the notice of the page that follows an action.
    const notice = isScript(request) ? undefined : takeNotice(request, reply, DASHBOARD_NOTICE)
    // An action shows what came of it.
    const follows = notice === undefined && isFollowing(request)
    const { result, freshForMs } = await shared.read(name, follows, () => readDated(view))
    // An override has no effect without rules.
    const actor = settings.useDynamicRules ? actorWith(request, 'writeOverrides') : undefined
    const token = actor === undefined ? undefined : issueFormToken(request, reply, actor)
    const quickActions = await createQuickActions(routes, clientsOf(result), view, token)
    const shown = {
      view,
      mayMakeRules: actorWith(request, 'writeRules') !== undefined,
      freshForMs,
      quickActions,
      hasNetworks,
      curl: curlLine(request),
    }
    const { report, readAtMs, html } = result
    const incidents = incidentViews(result.incidents, view, {
      token,
      mayMakeRules: shown.mayMakeRules,
      rulePages: result.rulePages,
      readAtMs,
      quickActions,
      limitNamed: inForce.limitNamed,
    })
    const context = () => ({
      ...dashboardContext(report, { ...shown, incidents, notice }, readLogState(parts), readAtMs),
      ...withoutStyle(request),
    })
    return follows
      ? pages.sendShared(reply, 'dashboard', html, sharedName(result, shown, incidents, isScript(request)), context)
      : pages.send(reply, 'dashboard', context())
  }

  async function sendScript(_request: FastifyRequest, reply: FastifyReply) {
    return reply.type('text/javascript; charset=utf-8').send(pages.script)
  }

  async function sendOffendersCsv(request: FastifyRequest, reply: FastifyReply) {
    const offenders = await read(topOffenders({ ...requestedWindow(request).window, limit: CSV_LIMIT }))
    return sendCsv(request, reply, 'ratelimit_offenders.csv', csvRows(topOffenders, offenders))
  }

  async function sendClientsCsv(request: FastifyRequest, reply: FastifyReply) {
    const { window, listing } = requestedView(request, hasNetworks, clock.now())
    const clients = await read(topClients({ ...window, limit: CSV_LIMIT, by: listing.by }))
    return sendCsv(request, reply, 'ratelimit_clients.csv', csvRows(topClients, clients))
  }

  /** A window of whole days, as the seed's routes have it, or a range. */
  function requestedWindow(request: FastifyRequest): RequestedWindow {
    const { range, typed } = readRange((name) => lastParameter(request, name), clock.now())
    return { window: range ?? { days: requestedDays(request) }, typed }
  }

  function requireKey(request: FastifyRequest) {
    const key = requestedKey(request)
    if (key === '') throw new MissingKeyError()
    return key
  }

  async function readDetail(request: FastifyRequest) {
    return read(offenderDetail({ key: requireKey(request), ...requestedWindow(request).window }))
  }

  async function showOffender(request: FastifyRequest, reply: FastifyReply) {
    const requested = requestedWindow(request)
    const key = requireKey(request)
    const detail = await read((snapshot) => readKey(snapshot, key, requested.window, LATEST_EVENTS))
    const { back } = readClientView((name) => lastParameter(request, name), clock.now())
    const [counted = []] = await read(countedClients([detail.key], requested.window))
    const client = commonClient(counted, inForce.countsByUser)
    const links = {
      events: eventsHref(requested.window, { client: detail.key }),
      blockable: actorWith(request, 'writeOverrides') === undefined ? undefined : client,
    }
    const context = offenderContext(detail, requested, client, back, readLogState(parts), clock.now(), links)
    return pages.send(reply, 'offender', context)
  }

  async function refuseUnknownPath(): Promise<never> {
    throw new NotFoundError()
  }

  registerClientRoutes(routes)
  registerRaiseForm(routes)
  registerSearchRoutes(routes)
  app.register(async (scope) => registerActionRoutes(scope, routes))
  app.register(async (scope) => registerIncidentActions(scope, routes))
  registerIncidentLink(routes)
  registerEventsRoutes(routes)
  registerExplainRoutes(routes)
  registerRuleRoutes(routes)
  registerChangeRoutes(routes)
  registerOverrideRoutes(routes)
  registerExchangeRoutes(routes)
  registerTokenRoutes(routes)
  registerCounterRoutes(routes)
  registerUsageRoutes(routes)
  registerAlertRoutes(routes)
  app.get('/', staffRoute('dashboard'), showDashboard)
  app.get('/live.js', staffRoute('live-script'), sendScript)
  app.get('/offenders.csv', staffRoute('offenders-csv'), sendOffendersCsv)
  app.get('/clients.csv', staffRoute('clients-csv'), sendClientsCsv)
  app.get('/offender.html', staffRoute('offender-page'), showOffender)
  // A scope with a prefix serves `/offender/` also without the slash, whatever the host's router options are.
  app.register(async (scope) => scope.get('/', staffRoute('offender-detail'), readDetail), { prefix: '/offender' })
  app.route({ ...staffRoute('not-found'), method: app.supportedMethods, url: '/*', handler: refuseUnknownPath })
}

/** Returns the clients that a page may offer actions for: those of its lists, the networks around them, and of incidents. */
function clientsOf({ report: { top_clients, top_networks }, incidents }: DatedReport): string[] {
  const clients = top_clients.map(({ client }) => client)
  const networks = top_networks.map(({ network }) => network)
  const scopes = incidents.map(({ scope }) => subjectOf(scope))
  return [...new Set([...clients, ...clients.map(networkAround), ...networks, ...scopes])]
}

/** Names what pages of one report show beside it, such as blocks that were made since. */
function sharedName(
  result: DatedReport,
  { quickActions, freshForMs, ...shown }: Omit<Shown, 'incidents' | 'notice'>,
  incidents: Shown['incidents'],
  isForScript: boolean,
) {
  const offered = [
    ...result.report.top_clients.map(({ client, policies }) => quickActions(client, policies)),
    ...clientsOf(result).map((client) => quickActions(client)),
  ]
  const all = JSON.stringify([isForScript, shown, incidents, Math.ceil(freshForMs / SECOND_MS), offered])
  return createHash('sha256').update(all).digest('base64url')
}
