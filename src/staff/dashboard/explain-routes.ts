import type { FastifyReply, FastifyRequest } from 'fastify'
import { errorMessage, InvalidSettingError } from '../../ground/errors.js'
import { MAX_PATH_LENGTH } from '../../ground/storable.js'
import { eventById, type ListedEvent } from '../../reports/listed-events.js'
import { policiesThen } from '../../reports/policy-then.js'
import { lastParameter, type RequestedTrial, requestedTrial } from '../shell/request-query.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { staffRoute } from '../shell/staff-routes.js'
import { type Explained, explainContext, type LoggedRequest } from './explain-page.js'
import { visible } from './format.js'
import { trialFields } from './links.js'
import type { PageRoutes } from './page-routes.js'
import { readClientView } from './requested-view.js'
import { findRulePages } from './rules/rule-links.js'
import { describeUser, parseHeaders, parseUserFields } from './trials.js'

/** The id is below 2^53. */
const EVENT_ID = /^\d{1,15}$/

/** Registers the page that says which limits a request meets, and why. It charges nothing, so that a GET form asks. */
export function registerExplainRoutes(routes: PageRoutes<'hook'>): void {
  const { app, pages, read, clock, database, settings, hook } = routes
  const { smartRateLimit } = app
  const { privacy } = settings

  async function showExplanation(request: FastifyRequest, reply: FastifyReply) {
    const field = (name: string) => lastParameter(request, name)
    const view = readClientView(field, clock.now())
    const logged = await findLogged(field)
    const event = logged !== undefined && 'event' in logged ? logged.event : undefined
    const trial = event === undefined || !isIdAlone(field) ? requestedTrial(request) : trialOf(event)
    const answer = trial.path === '' ? undefined : await fromDatabase(explain(trial, logged))
    // A path that was cut within a character is one that no router takes.
    const isCut = event?.path.length === MAX_PATH_LENGTH && answer !== undefined && 'problem' in answer
    const explained = isCut ? { problem: CUT_PATH } : answer
    if (explained !== undefined && 'problem' in explained && !isCut) reply.code(400)
    const limits = explained !== undefined && 'explanation' in explained ? explained.explanation.limits : []
    const rulePages = await findRulePages(
      database,
      limits.flatMap(({ policy, applies }) => (applies ? [policy] : [])),
    )
    const geo = database.sources?.geo
    return pages.send(reply, 'explain', explainContext(trial, logged, explained, view, clock.now(), rulePages, geo))
  }

  /**
   * Returns the event that the address names, alone or with the fields of its request; undefined where the fields are of
   * another one: anybody can make them up.
   */
  async function findLogged(field: (name: string) => string): Promise<LoggedRequest | undefined> {
    const id = field('event')
    if (id === '') return undefined
    const event = EVENT_ID.test(id) ? await read(eventById(Number(id))) : undefined
    if (event === undefined) return { missing: true }
    const isTold = isIdAlone(field) || trialFields(event).every(([name, value]) => field(name) === value)
    return isTold ? { event, policies: await read(policiesThen(event)) } : undefined
  }

  /** @param logged the request in the log; undefined for one that was typed */
  async function explain(
    { method, path, ip, ...trial }: RequestedTrial,
    logged: LoggedRequest | undefined,
  ): Promise<Explained> {
    const headers = parseHeaders(trial.headers)
    const fields = parseUserFields(trial.fields)
    if (typeof headers === 'string') return { problem: headers }
    if (typeof fields === 'string') return { problem: fields }
    try {
      const request = { method, path, headers, user: describeUser(trial.user, fields) }
      const address = ip === '' ? {} : { ip }
      if (logged === undefined || 'missing' in logged) {
        return { explanation: await smartRateLimit.explain({ ...request, ...address }) }
      }
      const { client } = logged.event
      const policies = logged.policies.map(({ policy }) => policy)
      // The first address of a network that stands for its clients is none of theirs.
      const known = privacy?.isShortened(client) ? request : { ...request, ...address }
      return { explanation: await hook.explain(known, { client, policies }) }
    } catch (error) {
      if (!(error instanceof InvalidSettingError)) throw error
      return { problem: visible(errorMessage(error)) }
    }
  }

  app.get('/explain.html', staffRoute('explain'), showExplanation)
}

const CUT_PATH = `The log has only the first ${MAX_PATH_LENGTH} characters of its path, so the limits that apply now are not known.`
const TRIAL_FIELDS = ['method', 'path', 'ip', 'user', 'fields', 'headers']

/** Returns whether an address has no field of a request. */
function isIdAlone(field: (name: string) => string): boolean {
  return TRIAL_FIELDS.every((name) => field(name) === '')
}

function trialOf(event: ListedEvent): RequestedTrial {
  const fields = new Map(trialFields(event))
  const field = (name: string) => fields.get(name) ?? ''
  return {
    method: field('method'),
    path: field('path'),
    ip: field('ip'),
    user: field('user'),
    fields: field('fields'),
    headers: field('headers'),
  }
}
