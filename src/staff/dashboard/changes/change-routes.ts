/** The page of the changes of rules, overrides and incidents, each of which can be reverted. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { storedSpellings } from '../../../clients/client-networks.js'
import { readPage } from '../../../database/list.js'
import { errorMessage, RevertError, RuleValidationError } from '../../../ground/errors.js'
import { storable } from '../../../ground/storable.js'
import { CHANGE_SOURCES } from '../../../rules/history/actor.js'
import {
  CHANGE_ENTITIES,
  type Change,
  changeList,
  countOfActions,
  findChange,
  type HistoryOptions,
} from '../../../rules/history/history.js'
import { readStandings } from '../../../rules/history/standing.js'
import { leadBack, leadOn, readOrigin, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import { requireMayRevert, revertRight } from '../../shell/revert-right.js'
import { changeAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { newOverrideHref, newRuleHref } from '../links.js'
import type { PageRoutes } from '../page-routes.js'
import { HOW_TO, parseTime } from '../time-range.js'
import { CHANGES_PAGE, type ChangeFilter, changesContext, FILTER_FIELDS, filteredHref } from './changes-page.js'
import { revertedWords } from './revert-words.js'

/** Changes per page. */
const PAGE_SIZE = 50
const MAX_NAME_LENGTH = 255

const NoChangeError = createError('FST_RATE_LIMIT_NOT_FOUND', 'There is no such change.', 404)

export function registerChangeRoutes(routes: PageRoutes): void {
  const { app, pages, database, clock, settings } = routes
  const { privacy } = settings

  async function showChanges(request: FastifyRequest, reply: FastifyReply) {
    const filter = readFilter((name) => lastParameter(request, name))
    const [names, options, problem] = toOptions(filter)
    const beforeId = toId(lastParameter(request, 'before'))
    const from = beforeId === undefined ? undefined : ({ side: 'after', position: [beforeId] } as const)
    const page = readPage(database.dialect, changeList(database, names, options), { from, limit: PAGE_SIZE })
    const { rows: changes, hasAfter } = await fromDatabase(page)
    const counts = await fromDatabase(countOfActions(database, changes))
    const actor = actorWith(request, 'writeOverrides')
    return pages.send(
      reply,
      'changes-page',
      changesContext({
        changes,
        counts,
        standings: await fromDatabase(readStandings(database, changes)),
        hasOlder: hasAfter,
        isLatest: beforeId === undefined,
        filter,
        problem,
        token: actor === undefined ? undefined : issueFormToken(request, reply, actor),
        newRuleHref: actorWith(request, 'writeRules') === undefined ? undefined : newRuleHref(),
        newOverrideHref: actor === undefined ? undefined : newOverrideHref(),
        mayRevert: (change) => actorWith(request, revertRight(change)) !== undefined,
        result: takeNotice(request, reply, CHANGES_PAGE),
        nowMs: clock.now(),
      }),
    )
  }

  /** Returns the names to look for, the options of the list, and a sentence about a filter that has no meaning. */
  function toOptions(
    filter: ChangeFilter,
  ): [names: string[] | undefined, options: HistoryOptions, problem: string | undefined] {
    const { entity, name, actor, source } = filter
    const [since, until] = [filter.since, filter.until].map((text) => {
      const ms = parseTime(text, clock.now())
      return ms === undefined ? undefined : new Date(ms)
    })
    const wrong = [filter.since, filter.until].find((text, index) => text !== '' && [since, until][index] === undefined)
    return [
      name === '' ? undefined : storedSpellings(name, privacy),
      {
        entity: CHANGE_ENTITIES.find((each) => each === entity),
        actor: actor === '' ? undefined : actor,
        source: CHANGE_SOURCES.find((each) => each === source),
        since,
        until,
      },
      wrong === undefined ? undefined : `"${wrong}" is not a valid moment. Write it as ${HOW_TO}.`,
    ]
  }

  async function revert(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const field = (name: string) => request.body?.get(name) ?? ''
    const id = toId(field('id'))
    const change = id === undefined ? undefined : await fromDatabase(findChange(database, id))
    const origin = readOrigin(field('back'), field('mark'))
    // Others may write the cookie of a notice: its Undo is for what the same person did.
    const isOwn = origin === undefined || change?.actor === requireActor(request, 'writeOverrides')
    if (change === undefined || !isOwn) throw new NoChangeError()
    const count = await requireMayRevert(request, database, change)
    const { result, undo } = await changeAs(request, 'writeOverrides', database, () => reverted(change, count))
    const notice = { ...result, typed: {}, undo }
    return origin === undefined
      ? leadOn(request, reply, CHANGES_PAGE, filteredHref(readFilter(field)), notice)
      : leadBack(request, reply, { ...notice, redoes: field('redoes') !== 'yes', ...origin })
  }

  async function reverted(change: Change, count: number) {
    try {
      await app.smartRateLimit.rules.revert(change.id)
      return { succeeded: true, text: revertedWords(change, count) }
    } catch (error) {
      if (!(error instanceof RevertError) && !(error instanceof RuleValidationError)) throw error
      return { succeeded: false, text: `${errorMessage(error)}.` }
    }
  }

  app.get(`/${CHANGES_PAGE}`, staffRoute('changes'), showChanges)
  app.register(async (scope) => {
    guardActions(scope, routes, 'writeOverrides')
    scope.post<{ Body: StaffForm }>('/change-revert', staffRoute('change-revert'), revert)
  })
}

function readFilter(field: (name: string) => string): ChangeFilter {
  const [entity = '', name = '', actor = '', source = '', since = '', until = ''] = FILTER_FIELDS.map((each) =>
    storable(field(each).trim(), MAX_NAME_LENGTH),
  )
  return { entity, name, actor, source, since, until }
}

function toId(text: string): number | undefined {
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined
}
