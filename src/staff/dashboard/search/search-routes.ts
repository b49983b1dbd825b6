/** The one search for everything, and the list of clients. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { MAX_PATH_LENGTH } from '../../../ground/storable.js'
import { findClients } from '../../../reports/find-clients.js'
import { topClients } from '../../../reports/top-clients.js'
import { lastParameter, requestedSearchText } from '../../shell/request-query.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { clientHref } from '../links.js'
import { readLogState } from '../log-state.js'
import type { PageRoutes } from '../page-routes.js'
import { readClientView } from '../requested-view.js'
import { clientsContext } from './clients-page.js'
import { findBeside, isNamed, MAX_COUNT } from './find-beside.js'
import { findMeantClients, isClientText } from './meant-clients.js'
import { type Found, GROUPS, searchContext } from './search-page.js'

/** The rows of the list of clients. */
const MAX_LISTED = 100

export function registerSearchRoutes(routes: PageRoutes<'events' | 'hook'>): void {
  const { app, pages, read, clock } = routes

  const readView = (request: FastifyRequest) => readClientView((name) => lastParameter(request, name), clock.now())

  async function search(request: FastifyRequest, reply: FastifyReply) {
    const text = requestedSearchText(request)
    const view = { ...readView(request), text, only: GROUPS.find((group) => group === lastParameter(request, 'in')) }
    const { window, back } = view
    const send = (found?: Found) => pages.send(reply, 'search-results', searchContext(view, clock.now(), found))
    if (text === '') return send()
    if (text.length > MAX_PATH_LENGTH) {
      reply.code(400)
      return send()
    }
    const clients = await findMeantClients(read, text, window, MAX_COUNT)
    const [only] = view.only === undefined && clients.length === 1 ? clients : []
    const lead = (client: string) => reply.redirect(clientHref(client, window, back), 303)
    if (only !== undefined && isClientText(text)) return lead(only.client)
    const beside = await findBeside(routes, text, window)
    // A word that is the name of something else, too, leads to the choice.
    if (only?.is_exact && !isNamed(text, beside)) return lead(only.client)
    return send({ clients, ...beside })
  }

  async function showClients(request: FastifyRequest, reply: FastifyReply) {
    const text = requestedSearchText(request)
    const view = readView(request)
    const options = { ...view.window, limit: MAX_LISTED }
    const busiest = topClients({ ...options, by: 'requests' })
    const listed = text === '' ? await read(busiest) : await read(findClients({ text, ...options }))
    return pages.send(reply, 'clients-page', clientsContext(text, listed, view, readLogState(routes), clock.now()))
  }

  app.get('/search.html', staffRoute('search'), search)
  app.get('/clients.html', staffRoute('clients'), showClients)
}
