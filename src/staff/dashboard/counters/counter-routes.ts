/** The page of the counters: finds those of a client or a limit, and resets them. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { DEFAULT_LIMIT, isStaffCounter, ruleLimitName } from '../../../clients/counter.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { type CounterSearch, StoredCounters } from '../../../limiter/stores/sql/stored-counters.js'
import { readCountedClient } from '../../shell/counted-client.js'
import { leadOn, type Notice, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import { actAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { curlLine } from '../first-request.js'
import { formatCount, visible } from '../format.js'
import { clientHref } from '../links.js'
import type { PageRoutes } from '../page-routes.js'
import { COUNTERS_PAGE, countersContext, countersHref } from './counters-page.js'

/** Rows per page: some milliseconds of work. */
const PAGE_SIZE = 100
const RIGHT = 'resetCounters'
/** Room for the boxes of a page. */
const BODY_LIMIT = 131_072
const CLIENT_WINDOW = { days: 7 }

export function registerCounterRoutes(routes: PageRoutes<'inForce' | 'limiter'>): void {
  const { app, pages, database, clock, settings, inForce, limiter } = routes
  const { privacy, namespace, middleware } = settings
  const { limitNamed, clientCounters } = inForce
  const tables = middleware.backend === 'database' ? new StoredCounters(database, namespace) : undefined

  async function showCounters(request: FastifyRequest, reply: FastifyReply) {
    const text = storable(lastParameter(request, 'q').trim(), MAX_KEY_LENGTH)
    const after = storable(lastParameter(request, 'after'), MAX_KEY_LENGTH)
    const client = readCountedClient(text, settings)
    const found =
      tables === undefined
        ? []
        : await fromDatabase(tables.find({ ...(await toSearch(text)), after, limit: PAGE_SIZE + 1 }))
    const counters = found
      .slice(0, PAGE_SIZE)
      .map((counter) => ({ ...counter, name: tables?.nameOf(counter.key) ?? counter.key }))
    const actor = actorWith(request, RIGHT)
    const view = {
      text,
      counters,
      hasMore: found.length > PAGE_SIZE,
      isFirst: after === '',
      nowMs: clock.now(),
      limitNamed,
    }
    return pages.send(reply, 'counters', {
      page: {
        ...countersContext(view),
        has_tables: tables !== undefined,
        curl: curlLine(request),
        client: client && { name: visible(client), value: client, href: clientHref(client, CLIENT_WINDOW) },
        notice: takeNotice(request, reply, COUNTERS_PAGE),
        token: actor === undefined ? undefined : issueFormToken(request, reply, actor),
      },
    })
  }

  /** Finds the counters of a client by their names, and for another text those that begin with it. */
  async function toSearch(text: string): Promise<Pick<CounterSearch, 'names' | 'prefixes'>> {
    const client = readCountedClient(text, settings)
    if (client !== undefined) {
      const counted = privacy?.toCounted(client) ?? client
      // Clients of several kinds have their further parts behind a bar.
      return { names: await clientCounters(client), prefixes: [`${DEFAULT_LIMIT}|${counted}|`] }
    }
    return { names: [], prefixes: text === '' ? [''] : [text, ruleLimitName(text), `${DEFAULT_LIMIT}|${text}`] }
  }

  async function takeForm(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const client = readCountedClient(form.get('client') ?? '', settings)
    const notice = await actAs(request, RIGHT, () =>
      client === undefined ? resetTicked(request, form.getAll('key')) : resetClient(request, client),
    )
    const back = countersHref(storable((form.get('q') ?? '').trim(), MAX_KEY_LENGTH))
    return leadOn(request, reply, COUNTERS_PAGE, back, notice)
  }

  async function resetTicked(request: FastifyRequest, ticked: readonly string[]): Promise<Notice> {
    const keys = ticked.slice(0, PAGE_SIZE).map((key) => storable(key, MAX_KEY_LENGTH))
    const named = keys
      .map((key) => ({ key, name: tables?.nameOf(key) ?? key }))
      .filter(({ name }) => !isStaffCounter(name))
    if (named.length === 0) return { succeeded: false, text: 'Nothing was changed: no counter was ticked.', typed: {} }
    // The row first: of a shortened name the key differs from that of the checks.
    await tables?.forget(named.map(({ key }) => key))
    await limiter.reset(named.map(({ name }) => name))
    note(
      request,
      named.map(({ name }) => name),
    )
    const count = named.length === 1 ? '1 counter was' : `${formatCount(named.length)} counters were`
    return { succeeded: true, text: `${count} reset. All servers obey within two seconds.`, typed: {} }
  }

  async function resetClient(request: FastifyRequest, client: string): Promise<Notice> {
    await limiter.reset(await clientCounters(client))
    note(request, [privacy?.toCounted(client) ?? client])
    const text = `The counters of ${visible(client)} were reset. All servers obey within two seconds.`
    return { succeeded: true, text, typed: {} }
  }

  /** Logs who reset what: the history is of rules and overrides. */
  function note(request: FastifyRequest, keys: readonly string[]): void {
    request.log.info(
      { keys, actor: requireActor(request, RIGHT) },
      'Counters were reset on the pages of the rate limiter',
    )
  }

  app.register(async (scope) => {
    guardActions(scope, routes, RIGHT, BODY_LIMIT)
    scope.get(`/${COUNTERS_PAGE}`, staffRoute('counters'), showCounters)
    scope.post<{ Body: StaffForm }>(`/${COUNTERS_PAGE}`, staffRoute('counters'), takeForm)
  })
}
