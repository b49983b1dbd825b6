/** The list of overrides and bans, their form, and what is done about several at once. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { SqlWork } from '../../../database/dialect.js'
import { readPage } from '../../../database/list.js'
import { entryVersion } from '../../../rules/entry-version.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import { changeRows } from '../../../rules/table.js'
import { leadOn, type Notice, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import { changeAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, isUnnamed } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { registerEntryForm } from '../entries/entry-form-routes.js'
import { formatCount } from '../format.js'
import type { PageRoutes } from '../page-routes.js'
import { askAboutEverybody } from './everybody.js'
import { overrideList } from './list-overrides.js'
import { listHref, overridesContext, readOverrideView } from './overrides-page.js'

/** Rows per page: some milliseconds of work. */
const PAGE_SIZE = 100
const LIST = 'overrides.html'
const RIGHT = 'writeOverrides'
/** Room for the boxes of a page. */
const BODY_LIMIT = 32_768
const SEEN = /^(\d{1,10}):([\w-]{22})$/

export function registerOverrideRoutes(routes: PageRoutes): void {
  const { app, pages, database, clock, settings } = routes
  const { privacy } = settings

  async function showOverrides(request: FastifyRequest, reply: FastifyReply) {
    const view = readOverrideView((name) => lastParameter(request, name))
    const nowMs = clock.now()
    const { listing, from } = view
    const list = overrideList(database, privacy, listing, nowMs)
    const page = await fromDatabase(readPage(database.dialect, list, { from, limit: PAGE_SIZE }))
    const notice = takeNotice(request, reply, LIST)
    const actor = actorWith(request, RIGHT)
    const token = actor === undefined ? undefined : issueFormToken(request, reply, actor)
    return pages.send(reply, 'overrides', {
      page: {
        ...overridesContext(view, page, token, nowMs),
        notice,
        unnamed: isUnnamed(request, RIGHT),
        overrides_off: !(settings.enabled && settings.useDynamicRules),
      },
    })
  }

  async function actOnSeveral(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const { result, undo } = await changeAs(request, RIGHT, database, () => end(form.getAll('seen')))
    const back = listHref(readOverrideView((name) => form.get(name) ?? '').listing)
    return leadOn(request, reply, LIST, back, { ...result, undo })
  }

  /** Ends the overrides that are as the page showed them. */
  async function end(ticked: readonly string[]): Promise<Notice> {
    const seen = new Map(
      ticked.flatMap((text) => {
        const [, id, version = ''] = SEEN.exec(text) ?? []
        return id === undefined ? [] : [[Number(id), version] as const]
      }),
    )
    if (seen.size === 0) return { succeeded: false, text: 'Nothing was changed: no override was ticked.', typed: {} }
    const ended = await changeRows(database, OVERRIDES, clock.now(), function* (overrides): SqlWork<number> {
      const { isOneOf } = overrides.dialect
      const rows = yield* overrides.find(isOneOf('id', '$1', 'bigint'), [JSON.stringify([...seen.keys()])])
      const ids = rows.flatMap(({ id, entry }) => (seen.get(id) === entryVersion(entry) ? id : []))
      return ids.length === 0 ? 0 : yield* overrides.delete(isOneOf('id', '$1', 'bigint'), [JSON.stringify(ids)])
    })
    const left = seen.size - ended
    const kept =
      left === 0 ? '' : ` ${several(left)} ended or changed since the page was loaded, and left as it is now.`
    if (ended === 0) return { succeeded: false, text: `Nothing was changed:${kept}`, typed: {} }
    return { succeeded: true, text: `${several(ended)} ended.${kept}`, typed: {} }
  }

  registerEntryForm(routes, {
    description: OVERRIDES,
    name: 'override',
    list: LIST,
    listTitle: 'Overrides and bans',
    right: RIGHT,
    proposed: ['effect', 'algorithm', 'expiresAt'],
    checks: {},
    question: askAboutEverybody,
  })
  app.get(`/${LIST}`, staffRoute('overrides'), showOverrides)
  app.register(async (scope) => {
    guardActions(scope, routes, RIGHT, BODY_LIMIT)
    scope.post<{ Body: StaffForm }>('/overrides-bulk', staffRoute('overrides-bulk'), actOnSeveral)
  })
}

function several(count: number): string {
  return count === 1 ? '1 override was' : `${formatCount(count)} overrides were`
}
