/** The way from a client, wherever it is shown, to the form that raises the limit that refused it. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { groupBy } from '../../ground/group-by.js'
import type { AppliedOverride } from '../../plugin/parts/limits-in-force.js'
import { readClientRequests } from '../../reports/client-detail.js'
import { readOverridesOf } from '../../reports/client-overrides.js'
import type { ClientEvent } from '../../reports/listed-events.js'
import { OVERRIDES } from '../../rules/overrides/override.js'
import { compiledPattern } from '../../rules/patterns/pattern.js'
import { readSomeEntries } from '../../rules/read-entries.js'
import { leadOn } from '../shell/notice-cookie.js'
import { lastParameter } from '../shell/request-query.js'
import { fromDatabase } from '../shell/staff-errors.js'
import { requireActor } from '../shell/staff-member.js'
import { staffRoute } from '../shell/staff-routes.js'
import { canRaise, offerFor, overrideClientFor, USUAL_LENGTH, usualClient } from './client-offer.js'
import { visible } from './format.js'
import { clientHref, newOverrideHref, overrideHref } from './links.js'
import { firstWords } from './override-words.js'
import type { PageRoutes } from './page-routes.js'
import { asksMost, periodWords, raisedRate } from './raised-rate.js'
import { readClientView } from './requested-view.js'

const InvalidClientError = createError('FST_RATE_LIMIT_INVALID_CLIENT', 'Overrides cannot name this client.', 400)
/** The page of the form, which its notice is about. */
export const OVERRIDE_FORM = 'override.html'

/** The limit that refused a client. */
interface HitLimit {
  /** As the subject of a sentence. */
  readonly words: string
  readonly rate: string
  readonly algorithm: string
  readonly pathPattern: string
}

export function registerRaiseForm({ app, read, database, clock, settings, inForce }: PageRoutes<'inForce'>): void {
  const { privacy } = settings
  const { limitNamed, overrideFor, routedPath } = inForce

  /** Leads to the form: computed when it is asked for, since it reads single events. */
  async function openRaiseForm(request: FastifyRequest, reply: FastifyReply) {
    requireActor(request, 'writeOverrides')
    const field = (name: string) => lastParameter(request, name)
    const client = overrideClientFor(usualClient(field('client').trim()))
    if (client === undefined) throw new InvalidClientError()
    const requests = await read(readClientRequests(client))
    const hit = hits(requests).find(({ policy }) => canRaise(policy, limitNamed))
    const decides = hit && overrideFor(hit.client, hit.path)
    const limit = hit && (await findLimit(client, requests, hit.policy, decides))
    if (limit === undefined || limit.algorithm === 'concurrency') {
      return explain(request, reply, client, 'No limit refused it in the last day that an override can raise.')
    }
    if (decides !== undefined && decides.algorithm === undefined) {
      return explain(request, reply, client, `${firstWords(decides)}: end that first.`)
    }
    const { algorithm, pathPattern } = limit
    const counted = requests.filter(({ outcome, path }) => outcome !== 'denied' && matches(pathPattern, path))
    const effect = raisedRate(limit.rate, counted)
    if (effect === undefined) return explain(request, reply, client, `${limit.words} cannot be raised further.`)
    const most = asksMost(limit.rate, counted)
    const asked = most === undefined ? '' : ` It asked for ${most.count} within ${periodWords(most.periodMs)}.`
    const where = pathPattern === '' ? 'on all paths' : `where the path matches ${visible(pathPattern)}`
    const text = `${limit.words} allows ${visible(client)} ${visible(limit.rate)} ${where}.${asked} ${effect} is proposed; nothing is saved yet.`
    const href = await formHref({ client, effect, algorithm, pathPattern })
    return leadOn(request, reply, OVERRIDE_FORM, href, { succeeded: true, text, typed: {} })
  }

  /** Leads to the page of a client, whose menu sets a rate for all its paths. */
  function explain(request: FastifyRequest, reply: FastifyReply, client: string, why: string) {
    const { window, back } = readClientView((name) => lastParameter(request, name), clock.now())
    const notice = { succeeded: false, text: `Nothing was changed: ${why}`, typed: {} }
    return leadOn(request, reply, client, clientHref(client, window, back), notice)
  }

  async function findLimit(
    client: string,
    requests: readonly ClientEvent[],
    policy: string,
    decides: AppliedOverride | undefined,
  ): Promise<HitLimit | undefined> {
    if (decides?.algorithm !== undefined) {
      const { algorithm, effect, pathPattern } = decides
      const whose = decides.client === client ? 'The override' : `The override of ${visible(decides.client)}`
      return { words: `${whose} in force`, rate: effect, algorithm, pathPattern }
    }
    if (policy !== 'default') {
      const limit = limitNamed(policy)
      if (limit?.pathPattern === undefined) return undefined
      return { ...limit, words: `The rule ${visible(policy)}`, pathPattern: limit.pathPattern }
    }
    // An override for all paths must not be less than a rule that it stands for.
    const source = { entries: database, nowMs: clock.now(), privacy }
    const overrides = (await fromDatabase(readOverridesOf(source, [client]))).get(client) ?? []
    const { from } = offerFor({ client, by_policy: requests, overrides }, limitNamed)
    if (from === undefined) return undefined
    return { ...from, words: capitalized(from.words), pathPattern: '' }
  }

  function matches(pattern: string, path: string): boolean {
    return pattern === '' || compiledPattern(pattern).test(routedPath(path))
  }

  /** Returns the form of the override that a client has for a path pattern, also one that is over; else of a new one. */
  async function formHref(fields: Readonly<Record<'client' | 'effect' | 'algorithm' | 'pathPattern', string>>) {
    const { client, effect, algorithm, pathPattern } = fields
    const rows = readSomeEntries(database, OVERRIDES, 'WHERE client = $1 AND path_pattern = $2', [client, pathPattern])
    const [row] = await fromDatabase(rows)
    if (row === undefined) return newOverrideHref({ ...fields, expiresAt: USUAL_LENGTH })
    const isOver = OVERRIDES.hasExpired(row.entry, clock.now())
    return overrideHref(row.id, { effect, ...(isOver && { algorithm, expiresAt: USUAL_LENGTH }) })
  }

  app.get('/raise-form', staffRoute('raise-form'), openRaiseForm)
}

/** Returns the latest refusal by each policy, that of most refusals first. */
function hits(requests: readonly ClientEvent[]): ClientEvent[] {
  const refused = requests.filter(({ outcome }) => outcome === 'over_limit')
  return [...groupBy(refused, ({ policy }) => policy).values()]
    .toSorted((one, other) => other.length - one.length)
    .flatMap(([latest]) => latest ?? [])
}

function capitalized(words: string): string {
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}`
}
