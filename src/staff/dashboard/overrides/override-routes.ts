/** The list of overrides and bans, their form, and what is done about several at once. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { runStatement, type SqlWork } from '../../../database/dialect.js'
import { RevertError, RuleValidationError } from '../../../ground/errors.js'
import { entryVersion } from '../../../rules/entry-version.js'
import { findChange, revertChange } from '../../../rules/history/history.js'
import { OVERRIDES } from '../../../rules/overrides/override.js'
import { changeRows } from '../../../rules/table.js'
import { leaveNotice, type Notice, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import { actAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { registerEntryForm } from '../entries/entry-form-routes.js'
import { formatCount } from '../format.js'
import type { PageRoutes } from '../page-routes.js'
import { askAboutEverybody } from './everybody.js'
import { listOverrides } from './list-overrides.js'
import { listHref, overridesContext, readOverrideView } from './overrides-page.js'

/** Rows per page: some milliseconds of work. */
const PAGE_SIZE = 100
const LIST = 'overrides.html'
const RIGHT = 'writeOverrides'
/** Room for the boxes of a page. */
const BODY_LIMIT = 32_768
const SEEN = /^(\d{1,10}):([\w-]{22})$/
const CHANGES = /^\d{1,15}(?:,\d{1,15}){0,99}$/

export function registerOverrideRoutes(routes: PageRoutes): void {
  const { app, internals, pages } = routes
  const { database, clock, privacy, switches } = internals

  async function showOverrides(request: FastifyRequest, reply: FastifyReply) {
    const view = readOverrideView((name) => lastParameter(request, name))
    const nowMs = clock.now()
    const { listing, position } = view
    const page = await fromDatabase(listOverrides(database, privacy, listing, position, PAGE_SIZE, nowMs))
    const notice = takeNotice(request, reply, LIST)
    const actor = actorWith(request, RIGHT)
    const token = actor === undefined ? undefined : issueFormToken(request, reply, actor)
    return pages.send(reply, 'overrides', {
      page: {
        ...overridesContext(view, page, token, nowMs),
        notice,
        undo: token === undefined ? undefined : notice?.typed.undo,
        overrides_off: !(switches.enabled && switches.useDynamicRules),
      },
    })
  }

  async function actOnSeveral(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const undone = form.get('undo') ?? ''
    const notice = await actAs(request, RIGHT, () =>
      CHANGES.test(undone) ? restore(undone.split(',').map(Number)) : end(form.getAll('seen')),
    )
    leaveNotice(request, reply, LIST, notice)
    return reply.redirect(listHref(readOverrideView((name) => form.get(name) ?? '').listing), 303)
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
    const changes = await changeRows(database, OVERRIDES, clock.now(), function* (overrides): SqlWork<number[]> {
      const { isOneOf, table } = overrides.dialect
      const rows = yield* overrides.find(isOneOf('id', '$1', 'bigint'), [JSON.stringify([...seen.keys()])])
      const ids = rows.flatMap(({ id, entry }) => (seen.get(id) === entryVersion(entry) ? id : []))
      if (ids.length === 0) return []
      yield* overrides.delete(isOneOf('id', '$1', 'bigint'), [JSON.stringify(ids)])
      const recorded = yield* runStatement<{ id: number }>(
        `SELECT MAX(id) AS id FROM ${table('rate_limit_change')}
         WHERE entity = 'override' AND action = 'delete' AND ${isOneOf('row_id', '$1', 'bigint')}
         GROUP BY row_id ORDER BY MAX(id)`,
        [JSON.stringify(ids)],
      )
      return recorded.map(({ id }) => id)
    })
    const left = seen.size - changes.length
    const kept =
      left === 0 ? '' : ` ${several(left)} ended or changed since the page was loaded, and left as it is now.`
    if (changes.length === 0) return { succeeded: false, text: `Nothing was changed:${kept}`, typed: {} }
    return { succeeded: true, text: `${several(changes.length)} ended.${kept}`, typed: { undo: changes.join() } }
  }

  /** Creates overrides again, by the changes that ended them. */
  async function restore(changeIds: readonly number[]): Promise<Notice> {
    let count = 0
    for (const id of changeIds) {
      // The right is that to write overrides.
      if ((await findChange(database, id))?.entity !== 'override') continue
      try {
        await revertChange(database, clock.now(), id)
        count++
      } catch (error) {
        if (!(error instanceof RevertError || error instanceof RuleValidationError)) throw error
      }
    }
    const left = changeIds.length - count
    const text = `${several(count)} put in force again.`
    return left === 0
      ? { succeeded: true, text, typed: {} }
      : { succeeded: false, text: `${text} ${several(left)} not: expired since, or written anew.`, typed: {} }
  }

  registerEntryForm(routes, {
    description: OVERRIDES,
    name: 'override',
    list: LIST,
    listTitle: 'Overrides and bans',
    right: RIGHT,
    checks: {},
    question: askAboutEverybody,
  })
  app.get(`/${LIST}`, staffRoute('overrides'), showOverrides)
  app.register(async (scope) => {
    guardActions(scope, internals, RIGHT, BODY_LIMIT)
    scope.post<{ Body: StaffForm }>('/overrides-bulk', staffRoute('overrides-bulk'), actOnSeveral)
  })
}

function several(count: number): string {
  return count === 1 ? '1 override was' : `${formatCount(count)} overrides were`
}
