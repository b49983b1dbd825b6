import type { FastifyReply, FastifyRequest } from 'fastify'
import { type SqlValue, selectedColumns } from '../../database/dialect.js'
import { windowFor } from '../../reports/report-window.js'
import { suggestedRates } from '../../reports/suggested-rates.js'
import { readTraffic, ruleActivity } from '../../reports/traffic.js'
import { readSomeEntries } from '../../rules/read-entries.js'
import { RULES } from '../../rules/rule.js'
import { takeNotice } from '../shell/notice-cookie.js'
import { requestedDays, requestedFilter, requestedPageNumber } from '../shell/request-query.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { actorWith, requireActor } from '../shell/staff-member.js'
import { staffRoute } from '../shell/staff-routes.js'
import { registerEntryForm } from './entries/entry-form-routes.js'
import { ruleChecks } from './entries/rule-checks.js'
import { newRuleHref, ruleHref } from './links.js'
import { readLogState } from './log-state.js'
import type { PageRoutes } from './page-routes.js'
import { proposeRule } from './proposed-rule.js'
import { LISTED_FIELDS, type ListedRule, rulesContext } from './rules-page.js'

const LIST = 'rules.html'
/** Rules per page: some milliseconds of work. */
const PAGE_SIZE = 200

/** Registers the list of rules, and the way from a filter of the dashboard to the form of a rule. */
export function registerRuleRoutes({ app, internals, pages, mount, read }: PageRoutes): void {
  const { clock, database } = internals
  const { dialect, query } = database
  const readRules = (rest: string, parameters: readonly SqlValue[]) =>
    fromDatabase(readSomeEntries(database, RULES, rest, parameters))

  async function showRules(request: FastifyRequest, reply: FastifyReply) {
    const table = dialect.table(RULES.table)
    const counting = query<{ count: number }>(`SELECT COUNT(*) AS count FROM ${table}`)
    const [[counted], activity] = await Promise.all([fromDatabase(counting), read(ruleActivity())])
    const pageCount = Math.max(1, Math.ceil((counted?.count ?? 0) / PAGE_SIZE))
    const number = requestedPageNumber(request, pageCount)
    const rules = await fromDatabase(
      query<ListedRule>(
        `SELECT ${selectedColumns(LISTED_FIELDS)} FROM ${table} ORDER BY ${RULES.order(dialect)} LIMIT $1 OFFSET $2`,
        [PAGE_SIZE, (number - 1) * PAGE_SIZE],
      ),
    )
    const view = { rules, number, pageCount, activity, codeLimits: internals.codeLimits() }
    const { page } = rulesContext(view, readLogState(internals), clock.now())
    return pages.send(reply, 'rules', {
      page: {
        ...page,
        result: takeNotice(request, reply, LIST),
        new_href: actorWith(request, 'writeRules') === undefined ? undefined : newRuleHref(),
      },
    })
  }

  /** Leads to the form: computed when it is asked for, since the suggestion reads single events. */
  async function openRuleForm(request: FastifyRequest, reply: FastifyReply) {
    requireActor(request, 'writeRules')
    const { rule, path, method } = requestedFilter(request)
    if (rule !== undefined && path === undefined && method === undefined) {
      const [stored] = await readRules('WHERE name = $1', [rule])
      if (stored !== undefined) return reply.redirect(ruleHref(rule))
    }
    const days = requestedDays(request)
    const filter = { rule, path, method }
    const suggested = await read(suggestedRates({ ...filter, days }))
    const traffic = await read(async (snapshot) => readTraffic(snapshot, windowFor({ days }, snapshot.nowMs), filter))
    const deciding = new Set(traffic.flatMap(({ rule_name }) => (rule_name === '' ? [] : [rule_name])))
    const rules = (await readRules('', [])).map(({ entry }) => entry)
    const fields = proposeRule({ path, method, suggested, rules, deciding, routedPath: internals.routedPath })
    return reply.redirect(newRuleHref(fields))
  }

  registerEntryForm(
    { app, internals, pages, mount, read },
    {
      description: RULES,
      name: 'rule',
      list: LIST,
      listTitle: 'Rules',
      right: 'writeRules',
      checks: ruleChecks(app.smartRateLimit),
    },
  )
  app.get('/rules.html', staffRoute('rules'), showRules)
  app.get('/rule-form', staffRoute('rule-form'), openRuleForm)
}
