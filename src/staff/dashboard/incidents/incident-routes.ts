import createError from '@fastify/error'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Incident, subjectOf } from '../../../reports/incidents/incident.js'
import { incidentStories, MAX_INCIDENTS } from '../../../reports/incidents/incidents.js'
import { markIncident } from '../../../rules/history/incident-changes.js'
import { DASHBOARD_NOTICE, leadOn, type Notice } from '../../shell/notice-cookie.js'
import { lastParameter, requestedSearch } from '../../shell/request-query.js'
import { changeAs, guardActions, type StaffForm } from '../../shell/staff-actions.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { visible } from '../format.js'
import { dashboardHref } from '../links.js'
import type { PageRoutes } from '../page-routes.js'
import { readClientView } from '../requested-view.js'

const InvalidFormError = createError('FST_RATE_LIMIT_INVALID_FORM', 'This form does not belong to an incident.', 400)
const ID = /^[\da-f]{20}$/
const RIGHT = 'writeOverrides'

/** Registers the address to which alerts lead: the incident is among those of the dashboard. */
export function registerIncidentLink({ app }: PageRoutes): void {
  async function openIncident(request: FastifyRequest, reply: FastifyReply) {
    const query = new URLSearchParams(requestedSearch(request))
    const id = lastParameter(request, 'id')
    query.delete('id')
    return reply.redirect(`./?${query}${ID.test(id) ? `#incident-${id}` : ''}`)
  }

  app.get('/incident.html', staffRoute('incident'), openIncident)
}

/** @param app a scope behind the guard of the dashboard, of this route only */
export function registerIncidentActions(app: FastifyInstance, routes: PageRoutes): void {
  const { database, clock, read } = routes

  async function ignore(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const field = (name: string) => request.body?.get(name) ?? ''
    const id = field('id')
    if (!ID.test(id)) throw new InvalidFormError()
    const { result, undo } = await changeAs(request, RIGHT, database, () =>
      mark({ id, scope: field('scope') }, field('ignore') !== 'no'),
    )
    const { window, back } = readClientView(field, clock.now())
    return leadOn(request, reply, DASHBOARD_NOTICE, dashboardHref(window, back), { ...result, undo })
  }

  async function mark(seen: Pick<Incident, 'id' | 'scope'>, isIgnored: boolean): Promise<Notice> {
    const incident = (await read(incidentStories(MAX_INCIDENTS))).find(({ id }) => id === seen.id)
    const failed = (why: string) => ({ succeeded: false, text: `Nothing was changed: ${why}.`, typed: {} })
    if (incident === undefined) return failed('it is over')
    const scope = visible(incident.scope)
    if (scope !== seen.scope) return failed(`it has become the incident of ${scope}`)
    if (isIgnored === (incident.action?.what === 'ignored')) return failed('somebody else was quicker')
    await markIncident(database, subjectOf(incident.scope), isIgnored, clock.now())
    const words = isIgnored ? 'is ignored until it is over' : 'is watched again'
    return { succeeded: true, text: `The incident of ${scope} ${words}.`, typed: {} }
  }

  guardActions(app, routes, RIGHT)
  app.post<{ Body: StaffForm }>('/ignore', staffRoute('incident-ignore'), ignore)
}
