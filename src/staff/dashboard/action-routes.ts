/** The actions of a client's page: each takes a form, writes or ends one override, and leads back with one notice. */
import createError from '@fastify/error'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { clientAddress, isNetwork } from '../../clients/client-networks.js'
import { DURATIONS } from '../../limiter/rate-words.js'
import type { AppliedOverride } from '../../plugin/parts/limits-in-force.js'
import { DEFAULT_LISTING } from '../../reports/dashboard-clients.js'
import { DASHBOARD_NOTICE, leadOn } from '../shell/notice-cookie.js'
import type { StaffForm } from '../shell/staff-actions.js'
import { changeAs, guardActions } from '../shell/staff-actions.js'
import { type StaffRouteName, staffRoute } from '../shell/staff-routes.js'
import { RETURNING } from './client-menu.js'
import { findInForce, overrideClientFor } from './client-offer.js'
import { lowerFirst, visible } from './format.js'
import { isLess } from './generous-rate.js'
import { clientHref, dashboardHref } from './links.js'
import { endOverride, parseEnd, parseSeen, type SeenOverrides, whyInvalid, writeOverride } from './override-actions.js'
import { endWords, firstWords, inForceWords } from './override-words.js'
import type { PageRoutes } from './page-routes.js'
import { readClientView } from './requested-view.js'

/** The content that every form has. */
interface ActionForm {
  readonly client: string
  /** The overrides that the page showed; of a form that ends one, the one alone. */
  readonly seen: SeenOverrides
  field(name: string): string
}

/** The result of an action, in words. */
interface Result {
  readonly succeeded: boolean
  readonly text: string
  /** The text with the name of the client, for a page of several. */
  readonly about?: string
}

type Action = (form: ActionForm) => Promise<Result>

const InvalidFormError = createError(
  'FST_RATE_LIMIT_INVALID_FORM',
  'This form does not belong to the page of a client.',
  400,
)

/** The value of the button that sends the rate beside it. */
const TYPED = 'typed'
/** The fields that the page shows again where an action failed. */
const TYPED_FIELDS = ['length', 'rate', 'note', 'keep']

const CHANGED: Result = {
  succeeded: false,
  text: 'Nothing was changed: another change was made since you loaded the page, or it ended. The page now shows what is in force.',
}

/** Wider networks than those of any provider: a block of one is not a matter of one click. */
const TOO_WIDE =
  'Nothing was changed: a network wider than /8, or /19 for IPv6, can be blocked only on the page Overrides and bans, or by ratelimit override add.'
const LEAST_BITS = { ipv4: 8, ipv6: 19 }

function isWide(client: string): boolean {
  const network = clientAddress(client)
  return network !== undefined && network.bits < LEAST_BITS[network.family]
}

/** @param app a scope behind the guard of the dashboard, of these routes only */
export function registerActionRoutes(app: FastifyInstance, routes: PageRoutes<'inForce'>): void {
  const { database, clock, settings, inForce } = routes
  const { privacy } = settings
  const { overrideFor } = inForce

  async function block({ field, ...form }: ActionForm): Promise<Result> {
    if (isWide(form.client)) return { succeeded: false, text: TOO_WIDE }
    return write({ field, ...form }, 'deny', field('for') || chosenLength(field))
  }

  async function raise({ field, ...form }: ActionForm): Promise<Result> {
    const rate = (field('to') === TYPED ? field('rate') : field('to')).trim()
    // Other effects are other actions.
    if (!/^\d/.test(rate)) return { succeeded: false, text: `"${rate}" is not a valid rate: give one such as 300/m.` }
    const result = await write({ field, ...form }, rate, chosenLength(field), field('algorithm'))
    const [from, of] = [field('from'), field('of')]
    return result.succeeded && isLess(rate, from) ? withMore(result, `This may be less than ${from}, ${of}.`) : result
  }

  async function allow(form: ActionForm): Promise<Result> {
    return write(form, 'allow', chosenLength(form.field))
  }

  async function write(
    { client, seen, field }: ActionForm,
    effect: string,
    length: string,
    algorithm = 'fixed_window',
  ): Promise<Result> {
    const nowMs = clock.now()
    const expiresAt = parseEnd(length, nowMs)
    if (expiresAt === undefined) {
      return { succeeded: false, text: `"${length}" is not a valid duration: give ${DURATIONS}.` }
    }
    const wish = { client, effect, algorithm, expiresAt, note: field('note').trim(), seen }
    const before = findInForce(overrideFor, client)
    const isWritten = await writeOverride(database, wish, nowMs)
    if (!isWritten) return CHANGED
    const words = `${inForceWords({ effect, expiresAtMs: expiresAt?.getTime() ?? null })}${whom(client)}.${endedWords(before, client, effect)}`
    const first = findInForce(overrideFor, client)
    return first === undefined || first.client === client
      ? { succeeded: true, text: words, about: `${shortName(client)} is ${lowerFirst(words)}` }
      : { succeeded: false, text: `${inForceWords(first)}, as before. ${firstWords(first)}; after it: ${words}` }
  }

  function whom(client: string): string {
    return privacy?.isShortened(client) ? `, with all addresses of ${client.slice('ip:'.length)}` : ''
  }

  async function end({ client, seen: { primary }, field }: ActionForm): Promise<Result> {
    // The menu of a list names the override of the button, a form of its own has no other.
    const ended = field('end') === '' ? primary : (parseSeen(field('end')) ?? undefined)
    const isEnded = ended !== undefined && (await endOverride(database, ended, clock.now()))
    if (!isEnded) return CHANGED
    const left = findInForce(overrideFor, client)
    const now = left === undefined ? 'the limits apply again' : inForceWords(left)
    return {
      succeeded: true,
      text: `It has ended: ${now}.`,
      about: `What was in force for ${shortName(client)} has ended: ${lowerFirst(now)}.`,
    }
  }

  function handle(action: Action) {
    return async function act(request: FastifyRequest<{ Body: StaffForm }>, reply: FastifyReply) {
      const form = readForm(request.body)
      const { result, undo } = await changeAs(request, 'writeOverrides', database, () => explained(action(form)))
      const sent = TYPED_FIELDS.filter((name) => request.body?.has(name))
      const typed = result.succeeded ? [] : sent.map((name) => [name, form.field(name)])
      const { window, back, live, ...display } = readClientView(form.field, clock.now())
      // A form of a list that failed is shown again on the page of the client, with what was typed.
      if (result.succeeded && form.field(RETURNING.name) === RETURNING.value) {
        const view = { listing: back.listing ?? DEFAULT_LISTING, live, ...display }
        const notice = { succeeded: true, text: result.about ?? result.text, typed: {}, undo }
        return leadOn(request, reply, DASHBOARD_NOTICE, dashboardHref(window, back, view), notice)
      }
      const page = clientHref(form.client, window, back, live, display)
      return leadOn(request, reply, form.client, page, { ...result, typed: Object.fromEntries(typed), undo })
    }
  }

  guardActions(app, routes, 'writeOverrides')
  const actions: readonly (readonly [path: string, name: StaffRouteName, action: Action])[] = [
    ['/block', 'client-block', block],
    ['/raise', 'client-raise', raise],
    ['/allow', 'client-allow', allow],
    ['/end', 'client-end', end],
  ]
  for (const [path, name, action] of actions) {
    app.post<{ Body: StaffForm }>(path, staffRoute(name), handle(action))
  }
}

/** Spells a network without what every client has, as incidents name it. */
function shortName(client: string): string {
  return visible(isNetwork(client) ? client.slice('ip:'.length) : client)
}

function withMore({ text, about, ...result }: Result, more: string): Result {
  return { ...result, text: `${text} ${more}`, ...(about !== undefined && { about: `${about} ${more}` }) }
}

/** Says that a rate or an exemption ended a block of the client; empty where it did not. */
function endedWords(before: AppliedOverride | undefined, client: string, effect: string): string {
  const isEnded = before?.client === client && before.effect === 'deny' && effect !== 'deny'
  return isEnded ? ` The block ${endWords(before.expiresAtMs)} has ended.` : ''
}

/** Returns the length of an override: the typed one, or the one that was chosen. */
function chosenLength(field: ActionForm['field']): string {
  return field('length').trim() || field('keep')
}

/** @throws InvalidFormError for what no page of a client sends */
function readForm(body: StaffForm): ActionForm {
  const field = (name: string) => body?.get(name) ?? ''
  const client = overrideClientFor(field('client'))
  const [primary, beside] = [parseSeen(field('seen')), parseSeen(field('beside'))]
  if (client === undefined || primary === null || beside === null) throw new InvalidFormError()
  return { client, seen: { primary, beside }, field }
}

/** Turns the refusal of an invalid override into words. */
async function explained(acting: Promise<Result>): Promise<Result> {
  try {
    return await acting
  } catch (error) {
    const text = whyInvalid(error)
    if (text === undefined) throw error
    return { succeeded: false, text }
  }
}
