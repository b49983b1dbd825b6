import { Readable } from 'node:stream'
import createError from '@fastify/error'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { countedClients } from '../analytics/counted-clients.js'
import { CSV_LIMIT, offendersCsvRows } from '../analytics/csv.js'
import { dashboardReport } from '../analytics/dashboard-report.js'
import { type OffenderDetail, offenderDetail } from '../analytics/offender-detail.js'
import { topOffenders } from '../analytics/top-offenders.js'
import { closedDaysFor, createReportRunner, type Report } from '../analytics/window.js'
import { type Internals, nearestMount } from '../internals.js'
import type { Pages } from '../sign-in/pages.js'
import {
  DEFAULT_DAYS,
  requestedDays,
  requestedFilter,
  requestedFilterBack,
  requestedKey,
  requestedPath,
  requestedSearch,
} from '../sign-in/request-query.js'
import { fromDatabase } from '../sign-in/staff-errors.js'
import { staffRoute } from '../sign-in/staff-routes.js'
import { DAY_MS } from '../time/clock.js'
import { dashboardContext } from './dashboard-page.js'
import { readLogState } from './log-state.js'
import { offenderContext } from './offender-page.js'
import { commonClient, type PanelLinks, panelLinks } from './panel-links.js'

const NotFoundError = createError('FST_RATE_LIMIT_NOT_FOUND', 'There is no such page.', 404)
const MissingKeyError = createError('FST_RATE_LIMIT_MISSING_KEY', 'missing ?key= parameter', 400)

/**
 * Registers the routes behind the guard, relative to the dashboard.
 *
 * @param mount the dashboard's path, as browsers request it
 */
export function registerReportRoutes(app: FastifyInstance, internals: Internals, pages: Pages, mount: string): void {
  const { database, clock, switches } = internals
  const reports = createReportRunner(database, clock, switches.logEvents === 'blocked')
  closedDaysFor(database).expect(DEFAULT_DAYS * DAY_MS, clock.now())
  const read = <Result>(report: Report<Result>) => fromDatabase(reports(report))

  async function showDashboard(request: FastifyRequest, reply: FastifyReply) {
    // The relative links of the page need the slash.
    if (!requestedPath(request).endsWith('/')) return reply.redirect(`dashboard/${requestedSearch(request)}`)
    const report = await read(dashboardReport({ days: requestedDays(request), filter: requestedFilter(request) }))
    return pages.send(reply, 'dashboard', dashboardContext(report, readLogState(internals), clock.now()))
  }

  async function sendOffendersCsv(request: FastifyRequest, reply: FastifyReply) {
    const offenders = await read(topOffenders({ days: requestedDays(request), limit: CSV_LIMIT }))
    return reply
      .type('text/csv; charset=utf-8')
      .header('content-disposition', 'attachment; filename="ratelimit_offenders.csv"')
      .send(Readable.from(offendersCsvRows(offenders)))
  }

  async function readDetail(request: FastifyRequest) {
    const key = requestedKey(request)
    if (key === '') throw new MissingKeyError()
    return read(offenderDetail({ key, days: requestedDays(request) }))
  }

  async function showOffender(request: FastifyRequest, reply: FastifyReply) {
    const detail = await readDetail(request)
    const back = requestedFilterBack(request)
    const panel = nearestMount(internals.places.panels, mount)
    const links = panel === undefined ? undefined : await panelLinksFor(panel, detail)
    return pages.send(reply, 'offender', offenderContext(detail, back, readLogState(internals), clock.now(), links))
  }

  async function panelLinksFor(panel: string, { key, days }: OffenderDetail): Promise<PanelLinks> {
    const [counted = []] = await read(countedClients([key], days))
    return panelLinks(panel, key, commonClient(counted, internals.countsByUser), clock.now())
  }

  async function refuseUnknownPath(): Promise<never> {
    throw new NotFoundError()
  }

  app.get('/', staffRoute('dashboard'), showDashboard)
  app.get('/offenders.csv', staffRoute('offenders-csv'), sendOffendersCsv)
  app.get('/offender.html', staffRoute('offender-page'), showOffender)
  // A scope with a prefix serves `/offender/` also without the slash, whatever the host's router options are.
  app.register(async (scope) => scope.get('/', staffRoute('offender-detail'), readDetail), { prefix: '/offender' })
  app.route({ ...staffRoute('not-found'), method: app.supportedMethods, url: '/*', handler: refuseUnknownPath })
}
