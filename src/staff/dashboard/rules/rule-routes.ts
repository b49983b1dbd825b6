import type { FastifyReply, FastifyRequest } from 'fastify'
import { runWork } from '../../../database/dialect.js'
import { busiestPath } from '../../../reports/client-detail.js'
import { suggestedRates } from '../../../reports/preview/suggested-rates.js'
import { windowFor } from '../../../reports/report-window.js'
import { readRuleTraffic } from '../../../reports/rule-traffic.js'
import { readEntries, readSomeEntries } from '../../../rules/read-entries.js'
import { RULES } from '../../../rules/rule.js'
import { lastParameter, requestedFilter } from '../../shell/request-query.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { requireActor } from '../../shell/staff-member.js'
import { staffRoute } from '../../shell/staff-routes.js'
import { registerEntryForm } from '../entries/entry-form-routes.js'
import { newRuleHref, ruleHref } from '../links.js'
import { type PageRoutes, readUnlessAway } from '../page-routes.js'
import { readWindow } from '../requested-view.js'
import { besideRule } from './beside-rule.js'
import { coveringNotes } from './covering-rules.js'
import { proposeRule } from './proposed-rule.js'
import { ruleChecks } from './rule-checks.js'
import { registerRuleList } from './rule-list-routes.js'
import { RULE_LIST } from './rules-page.js'

/** Registers the list of rules, the page of a rule, and the way there from a filter of the dashboard. */
export function registerRuleRoutes(routes: PageRoutes<'events' | 'hook' | 'inForce'>): void {
  const { app, read, clock, database, inForce } = routes

  /** Leads to the form: computed when it is asked for, since the suggestion reads single events. */
  async function openRuleForm(request: FastifyRequest, reply: FastifyReply) {
    requireActor(request, 'writeRules')
    const { rule, path: requested, method } = requestedFilter(request)
    const path = (await busiestOfIncident(request)) ?? requested
    if (rule !== undefined && path === undefined && method === undefined) {
      const [stored] = await fromDatabase(readSomeEntries(database, RULES, 'WHERE name = $1', [rule]))
      if (stored !== undefined) return reply.redirect(ruleHref(rule))
    }
    const { window } = readWindow((name) => lastParameter(request, name), clock.now())
    const filter = { rule, path, method }
    const suggested = await readUnlessAway(routes, suggestedRates({ ...filter, ...window }))
    const traffic =
      (await readUnlessAway(routes, async (snapshot) =>
        readRuleTraffic(snapshot, windowFor(window, snapshot.nowMs), filter),
      )) ?? []
    const deciding = new Set(traffic.flatMap(({ rule_name }) => (rule_name === '' ? [] : [rule_name])))
    const rules = await fromDatabase(runWork(database.query, readEntries(RULES, database.dialect)))
    const fields = proposeRule({ path, method, suggested, rules, deciding, routedPath: inForce.routedPath })
    return reply.redirect(newRuleHref(fields))
  }

  /** Returns the path that the clients of an incident requested most often; undefined where the address names none. */
  async function busiestOfIncident(request: FastifyRequest): Promise<string | undefined> {
    const [client, from] = [lastParameter(request, 'incident'), Number(lastParameter(request, 'from'))]
    const nowMs = clock.now()
    const isRange = Number.isSafeInteger(from) && from > 0 && from < nowMs
    if (client === '' || !isRange) return undefined
    return readUnlessAway(routes, busiestPath(client, { since: from, until: nowMs }))
  }

  registerRuleList(routes)
  registerEntryForm(routes, {
    description: RULES,
    name: 'rule',
    list: RULE_LIST,
    listTitle: 'Rules',
    right: 'writeRules',
    proposed: ['rate'],
    checks: ruleChecks({
      preview: app.smartRateLimit.rules.preview,
      suggest: (options, isWholePath) => read(suggestedRates(options, isWholePath)),
    }),
    notes: coveringNotes(database, (options) => app.smartRateLimit.explain(options)),
    beside: besideRule(database, clock),
  })
  app.get('/rule-form', staffRoute('rule-form'), openRuleForm)
}
