/** The page of the alerts: which are on, what came of their last runs, and a test message. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { readRuns } from '../../../operations/alerts/alert-runs.js'
import { ALERT_TIMES, subscriptionOf } from '../../../operations/alerts/channels/channel.js'
import { channelsOn } from '../../../operations/alerts/channels/channels.js'
import { readTold } from '../../../operations/alerts/ledger.js'
import { sendTestMessages, type TestOutcome } from '../../../operations/alerts/send-test.js'
import { JobLeases } from '../../../operations/schedule/job-leases.js'
import { findAlertJob } from '../../../plugin/parts/schedule.js'
import { incidents } from '../../../reports/incidents/incidents.js'
import { leadOn, takeNotice } from '../../shell/notice-cookie.js'
import { actAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { countAlertTest } from '../../shell/staff-limits.js'
import { actorWith, requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { type PageRoutes, readUnlessAway } from '../page-routes.js'
import { ALERTS_PAGE, alertsContext, testNotice } from './alerts-page.js'

const RIGHT = 'testAlerts'
/** The messages that the page lists. */
const MAX_TOLD = 20
/** How long told incidents are remembered. */
const KEPT_DAYS = 7

export function registerAlertRoutes(routes: PageRoutes<'staffLog'>): void {
  const { app, pages, database, clock, staffLog: log, settings } = routes
  const { alerts } = settings
  const job = findAlertJob(settings)
  const leases = new JobLeases(database)

  async function showAlerts(request: FastifyRequest, reply: FastifyReply) {
    const on = channelsOn(alerts).map((channel) => {
      return { channel, watch: subscriptionOf(channel.create(alerts, clock, ALERT_TIMES)) }
    })
    const watches = on.map(({ watch }) => watch)
    const [records, channels, told] = await fromDatabase(
      Promise.all([
        leases.records(),
        Promise.all(on.map(async (each) => ({ ...each, runs: await readRuns(database, each.watch) }))),
        readTold(database, watches, MAX_TOLD),
      ]),
    )
    const actor = channels.length === 0 ? undefined : actorWith(request, RIGHT)
    const view = {
      settings: alerts,
      channels,
      job: job && { nextMs: job.nextRun(clock.now()), record: records.find(({ name }) => name === job.name) },
      isLogging: settings.enabled && settings.logEvents !== false,
      told,
      incidents: told.length === 0 ? [] : await readUnlessAway(routes, incidents({ days: KEPT_DAYS })),
      nowMs: clock.now(),
    }
    return pages.send(reply, 'alerts', {
      page: {
        ...alertsContext(view),
        notice: takeNotice(request, reply, ALERTS_PAGE),
        token: actor === undefined ? undefined : issueFormToken(request, reply, actor),
      },
    })
  }

  async function sendTest(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    await countAlertTest(routes, reply)
    const outcomes = await actAs(request, RIGHT, () => sendTestMessages({ settings: alerts, database, clock, log }))
    note(request, outcomes)
    return leadOn(request, reply, ALERTS_PAGE, ALERTS_PAGE, testNotice(outcomes))
  }

  /** Logs who sent it: the history is of rules and overrides. */
  function note(request: FastifyRequest, outcomes: readonly TestOutcome[]): void {
    request.log.info(
      { actor: requireActor(request, RIGHT), outcomes },
      'A test message of alerts was sent from the pages of the rate limiter',
    )
  }

  app.register(async (scope) => {
    guardActions(scope, routes, RIGHT)
    scope.get(`/${ALERTS_PAGE}`, staffRoute('alerts'), showAlerts)
    scope.post<{ Body: StaffForm }>(`/${ALERTS_PAGE}`, staffRoute('alerts'), sendTest)
  })
}
