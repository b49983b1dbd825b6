import createError from '@fastify/error'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../../../plugin/internals.js'
import { ignoreIncident, watchIncident } from '../../../rules/ignored-incidents.js'
import { actAs, guardActions, type StaffForm } from '../../shell/staff-actions.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { dashboardHref } from '../links.js'
import { readClientView } from '../requested-view.js'

const InvalidFormError = createError('FST_RATE_LIMIT_INVALID_FORM', 'This form does not belong to an incident.', 400)
const ID = /^[\da-f]{20}$/

/** @param app a scope behind the guard of the dashboard, of this route only */
export function registerIncidentActions(app: FastifyInstance, internals: Internals): void {
  const { database, clock } = internals

  async function ignore(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const field = (name: string) => request.body?.get(name) ?? ''
    const id = field('id')
    if (!ID.test(id)) throw new InvalidFormError()
    await actAs(request, 'writeOverrides', () =>
      field('ignore') === 'no' ? watchIncident(database, id) : ignoreIncident(database, id, clock.now()),
    )
    const { window, back } = readClientView(field, clock.now())
    return reply.redirect(dashboardHref(window, back), 303)
  }

  guardActions(app, internals, 'writeOverrides')
  app.post<{ Body: StaffForm }>('/ignore', staffRoute('incident-ignore'), ignore)
}
