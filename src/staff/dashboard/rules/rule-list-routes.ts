/** The list of rules, with what can be done there. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type RuleActivity, ruleActivity } from '../../../reports/rule-traffic.js'
import { RULES } from '../../../rules/rule.js'
import { readFields } from '../../shell/field-form.js'
import { leadOn, type Notice, takeNotice } from '../../shell/notice-cookie.js'
import { lastParameter } from '../../shell/request-query.js'
import { changeAs, guardActions, issueFormToken, type StaffForm } from '../../shell/staff-actions.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { actorWith, isUnnamed, requireMay } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { newRuleHref } from '../links.js'
import { readLogState } from '../log-state.js'
import { type PageRoutes, readUnlessAway } from '../page-routes.js'
import { rulePage } from './beside-rule.js'
import { listRules } from './list-rules.js'
import { actOnRules, type BulkAction, type ChosenRules, type PriorityChange, setPriorities } from './rule-actions.js'
import {
  RULE_LIST,
  type RuleListView,
  readRuleListView,
  ruleListHref,
  rulesContext,
  type TypedPriority,
} from './rules-page.js'

/** Room for the boxes and priorities of a page. */
const BODY_LIMIT = 65_536
/** The right of operators; all else takes `writeRules`. */
const RIGHT = 'switchRules'
const ID = /^\d{1,10}$/
/** The value of a button: for the rules that are ticked, or for all that were found. */
const BULK = /^(enable|disable|delete)(-found)?$/
const UNKNOWN: RuleActivity = { today: new Map(), active: new Set() }
const NOTHING_TICKED: Notice = { succeeded: false, text: 'Nothing was changed: tick rules first.', typed: {} }

export function registerRuleList(routes: PageRoutes<'events' | 'hook'>): void {
  const { app, pages, clock, database, hook } = routes

  async function showRules(request: FastifyRequest, reply: FastifyReply) {
    return send(
      request,
      reply,
      readRuleListView((name) => lastParameter(request, name)),
    )
  }

  async function send(
    request: FastifyRequest,
    reply: FastifyReply,
    view: RuleListView,
    typed: ReadonlyMap<number, TypedPriority> = new Map(),
  ) {
    const nowMs = clock.now()
    const activity = await readUnlessAway(routes, ruleActivity())
    const page = await fromDatabase(listRules(database, view.listing, view.page, activity ?? UNKNOWN, nowMs))
    const actor = actorWith(request, RIGHT)
    const token = actor === undefined ? undefined : issueFormToken(request, reply, actor)
    const mayWrite = actorWith(request, 'writeRules') !== undefined
    const shown = { view, page, activity, typed, token, mayWrite, codeLimits: hook.codeLimits() }
    const { page: context } = rulesContext(shown, readLogState(routes), nowMs)
    const result =
      typed.size > 0
        ? { succeeded: false, text: 'Nothing was changed: see the priorities that are marked.', typed: {} }
        : takeNotice(request, reply, RULE_LIST)
    return pages.send(reply, 'rules', {
      page: {
        ...context,
        result,
        unnamed: isUnnamed(request, RIGHT),
        new_href: mayWrite ? newRuleHref() : undefined,
      },
    })
  }

  async function actOnSeveral(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const [, action, isForAll] = BULK.exec(form.get('do') ?? '') ?? []
    if (action === 'delete') requireMay(request, 'writeRules')
    const view = readRuleListView((name) => form.get(name) ?? '')
    const ids = [...new Set(form.getAll('id').filter((text) => ID.test(text)))].map(Number)
    const shown = Number(form.get('found'))
    const chosen = isForAll === undefined ? { ids } : { listing: view.listing, shown }
    const isTicked = action !== undefined && (isForAll !== undefined || ids.length > 0)
    const result = isTicked ? await act(request, action as BulkAction, chosen) : NOTHING_TICKED
    return leadBack(request, reply, view, result)
  }

  /** Switches one rule, from the list or its page; or saves the priorities of the list, which the Enter key does too. */
  async function changeSome(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
    const form = request.body ?? new URLSearchParams()
    const view = readRuleListView((name) => form.get(name) ?? '')
    const [on, off] = [form.get('on') ?? '', form.get('off') ?? '']
    if (!ID.test(on + off)) return savePriorities(request, reply, form, view)
    const id = Number(on + off)
    const result = await act(request, on === '' ? 'disable' : 'enable', { ids: [id] })
    if (form.get('from') !== 'rule') return leadBack(request, reply, view, result)
    return leadOn(request, reply, rulePage(id), rulePage(id), result)
  }

  async function act(request: FastifyRequest, action: BulkAction, chosen: ChosenRules): Promise<Notice> {
    const activity = (await readUnlessAway(routes, ruleActivity())) ?? UNKNOWN
    const { result, undo } = await changeAs(request, RIGHT, database, () =>
      actOnRules(database, action, chosen, activity, clock.now()),
    )
    return { ...result, undo }
  }

  async function savePriorities(
    request: FastifyRequest,
    reply: FastifyReply,
    form: URLSearchParams,
    view: RuleListView,
  ) {
    const changes = readPriorities(form, clock.now())
    if (changes.length > 0) requireMay(request, 'writeRules')
    const { result, undo } = await changeAs(request, RIGHT, database, () =>
      setPriorities(database, changes, clock.now()),
    )
    if ('succeeded' in result) return leadBack(request, reply, view, { ...result, undo })
    const typed = changes.map(({ id, priority }): [number, TypedPriority] => {
      return [id, { text: String(priority), problem: result.get(id) }]
    })
    reply.code(400)
    return send(request, reply, view, new Map(typed))
  }

  function leadBack(request: FastifyRequest, reply: FastifyReply, view: RuleListView, notice: Notice) {
    return leadOn(request, reply, RULE_LIST, ruleListHref(view), notice)
  }

  app.get('/rules.html', staffRoute('rules'), showRules)
  app.register(async (scope) => {
    guardActions(scope, routes, RIGHT, BODY_LIMIT)
    scope.post<{ Body: StaffForm }>('/rules-bulk', staffRoute('rules-bulk'), actOnSeveral)
    scope.post<{ Body: StaffForm }>('/rule-switch', staffRoute('rule-switch'), changeSome)
  })
}

/** Returns the priorities that differ from those that the page showed. */
function readPriorities(form: URLSearchParams, nowMs: number): PriorityChange[] {
  const { priority } = RULES.fields
  return [...form].flatMap(([name, text]) => {
    const [, id] = /^priority-(\d{1,10})$/.exec(name) ?? []
    const was = form.get(`was-${id}`)
    if (id === undefined || was === null) return []
    const typed = readFields({ priority }, () => text, nowMs).priority
    return String(typed) === was ? [] : [{ id: Number(id), priority: typed, was }]
  })
}
