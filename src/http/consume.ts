/** The decision about requests that the app did not get: by its hook, which gets their description. */
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../ground/errors.js'
import { shown } from '../ground/setting.js'
import { isRate } from '../limiter/algorithm.js'
import { isCost, MAX_COST } from '../limiter/cost.js'
import type { CheckedRequest } from './checked-request.js'
import { type ClientAddress, DISCONNECTED } from './client-address.js'
import { rulesLeftOut } from './countable-rules.js'
import { type RequestDescription, toMessage } from './described-request.js'
import { after, tolerate } from './host-function.js'
import { createOnRequest, type HookDependencies, keptRecord } from './on-request.js'
import { describeRefusal } from './refusal.js'
import type { RequestDecision } from './request-decision.js'
import { noteUser, type WithUser } from './request-user.js'

/** A request that this app did not get. */
export interface ConsumeOptions {
  /** Such as `GET`, in any case. */
  readonly method: string
  /** The path as the client sent it, with or without a query; of `http://host/path` its path. */
  readonly path: string
  /** The client's address. */
  readonly ip: string
  /** The user's id, or what the option `user` answers, with the fields that conditions and keys read; no user unless given. */
  readonly user?: object | string | number | bigint | null | undefined
  /** The headers that rules read, in any case; several values as a list. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>> | undefined
  /** The request's own cost, by which that of a rule is multiplied: an integer, 1 to 2147483647; 1 unless given. */
  readonly cost?: number | undefined
}

/** What became of a request, and what to answer. */
export interface ConsumedRequest {
  /** Whether the request goes on. Also true where its limit only counts: `decision.allowed` says what that found. */
  readonly allowed: boolean
  /** The status of a refusal; null where the request goes on. */
  readonly status: number | null
  /** The headers to send: those of the limits, and of a refusal also `retry-after`, `cache-control` and `content-type`. */
  readonly headers: Readonly<Record<string, string>>
  /** The body of a refusal, JSON; null where the request goes on. */
  readonly body: string | null
  /** The decision; null where no limit applies: on skipped paths, for the allow list, and with `enabled: false`. */
  readonly decision: RequestDecision | null
  /** The rules left out, since they count what runs at a time, or responses, of which this app knows nothing. */
  readonly left_out: readonly string[]
}

/** A request that is about to be decided. */
export interface Consumable {
  readonly request: FastifyRequest
  readonly reply: HeaderReply
}

interface Given {
  readonly address: ClientAddress
  readonly user: unknown
  readonly cost: number
  leftOut: readonly string[]
}

const GIVEN = Symbol('fastify-smart-ratelimit.given')
type GivenRequest = FastifyRequest & { [GIVEN]?: Given }
const NOTHING_GIVEN: Given = { address: DISCONNECTED, user: null, cost: 1, leftOut: [] }

function givenFor(request: GivenRequest): Given {
  return request[GIVEN] ?? NOTHING_GIVEN
}

export interface ConsumeDependencies {
  readonly hook: HookDependencies
  readonly log: FastifyBaseLogger
  /** Returns whether the hook leaves a request alone before it decides. */
  isSkipped(checked: CheckedRequest): boolean
  /** Returns the address that a text spells. */
  address(text: string): ClientAddress
  describe(message: ReturnType<typeof toMessage>, ip: string): FastifyRequest
  /** Returns what is in force, without the rules that are left out; undefined where there are no rules. */
  readonly inForce: HookDependencies['inForce'] | undefined
  /** Records the event and the metrics, where there are any. */
  readonly record: ((checked: CheckedRequest) => void) | undefined
}

export type Consume = ReturnType<typeof createConsume>

export function createConsume(dependencies: ConsumeDependencies) {
  const { record, address, describe } = dependencies
  const onRequest = createOnRequest(withoutResponse(dependencies))

  /** Decides, and returns a promise where the decision is late. */
  function decide({ request, reply }: Consumable): Promise<void> | undefined {
    let isDecided = false
    let wake: () => void = () => undefined
    onRequest(request, toFastify(reply), () => {
      isDecided = true
      wake()
    })
    if (isDecided) return undefined
    return new Promise((resolve) => {
      wake = resolve
    })
  }

  function conclude({ request, reply }: Consumable): ConsumedRequest {
    const checked = keptRecord(request)
    if (checked === null) return { allowed: true, status: null, headers: {}, body: null, decision: null, left_out: [] }
    record?.(checked)
    const refusal = checked.isRefused ? describeRefusal(checked, toFastify(reply)) : undefined
    return {
      allowed: refusal === undefined,
      status: refusal?.status ?? null,
      headers: reply.collected,
      body: refusal?.body ?? null,
      decision: checked.described,
      left_out: givenFor(request).leftOut,
    }
  }

  /** @throws InvalidSettingError for a request that cannot be, and for unknown fields */
  function prepare(options: unknown): Consumable {
    const { method, path, ip, user, headers = {}, cost = 1 } = validateOptions(options)
    const client = address(ip)
    if (client.plain === null) throw wrong('ip', ip, 'an address such as 203.0.113.7')
    const request: GivenRequest = describe(toMessage({ method, path, headers }), client.plain)
    request[GIVEN] = {
      address: client,
      user: typeof user === 'object' || user === undefined ? user : { id: user },
      cost,
      leftOut: [],
    }
    return { request, reply: new HeaderReply() }
  }

  return {
    prepare,
    async consume(options: ConsumeOptions): Promise<ConsumedRequest> {
      const consumable = prepare(options)
      const late = decide(consumable)
      if (late !== undefined) await late
      return conclude(consumable)
    },
    /** Decides about requests at once, and records them in their order. */
    async consumeAll(consumables: readonly Consumable[]): Promise<ConsumedRequest[]> {
      await Promise.all(consumables.map(decide))
      return consumables.map(conclude)
    },
  }
}

/**
 * Matches a target whose path has `..`, or what another server may make that of: control characters, which some leave
 * out, and escapes of those, of dots, overlong ones included, and of the percent sign. `/static/../login` may be no path
 * that is skipped. A server that knows no fragment takes what follows `#` for path.
 */
const CLIMBS = /^[^?]*(?:(?:[/\\]|%2f|%5c)\.\.(?:[/\\;%?# ]|$)|\p{Cc}|%(?:[01][\da-f]|2[5e]|7f|c[01]|e0%[89]|f0%8|u))/iu

/** Returns a hook for requests whose response is none of this app's. */
function withoutResponse({ hook, isSkipped, log, inForce = hook.inForce }: ConsumeDependencies): HookDependencies {
  function noteLeftOut(checked: CheckedRequest): CheckedRequest {
    givenFor(checked.request).leftOut = rulesLeftOut(hook, checked)
    return checked
  }
  return {
    ...hook,
    address: (request) => givenFor(request).address,
    user: tolerate((checked: WithUser) => noteUser(checked, givenFor(checked.request).user), 'user', log),
    costs: {
      areOne: false,
      costFor: (checked) =>
        isSkipped(checked) && !CLIMBS.test(checked.request.url) ? 0 : givenFor(checked.request).cost,
    },
    inForce,
    overrideLimit: (override) =>
      typeof override.effect === 'object' && !isRate(override.effect) ? null : hook.overrideLimit(override),
    decide: (decideBy, checked) => after(hook.decide(decideBy, checked), noteLeftOut),
    record: undefined,
    awaitResponse: () => undefined,
    refuse: (_checked, _reply, done) => done(),
  }
}

/** A reply has little that the hook calls. */
function toFastify(reply: HeaderReply): FastifyReply {
  return reply as unknown as FastifyReply
}

/** A reply that only collects headers. */
class HeaderReply {
  readonly collected: Record<string, string> = {}

  header(name: string, value: unknown): this {
    this.collected[name] = String(value)
    return this
  }

  removeHeader(name: string): this {
    delete this.collected[name]
    return this
  }

  getHeaders(): Record<string, string> {
    return this.collected
  }
}

const FIELDS: ReadonlySet<string> = new Set(['method', 'path', 'ip', 'user', 'headers', 'cost'])
type GivenFields = Readonly<Partial<Record<keyof ConsumeOptions, unknown>>>
const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what no header and no path can have
const CONTROL = /[\0-\x08\n-\x1f\x7f]/

/** @throws InvalidSettingError for wrong and unknown fields, but for what the router knows */
function validateOptions(options: unknown): ConsumeOptions {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidSettingError(`The request is ${shown(options)}: give an object with method, path and ip`)
  }
  for (const name of Object.keys(options)) {
    if (FIELDS.has(name)) continue
    throw new InvalidSettingError(`Option ${shown(name)} is not one of a request: give ${[...FIELDS].join(', ')}`)
  }
  const { method, path, ip, user, headers, cost }: GivenFields = options
  if (typeof method !== 'string') throw wrong('method', method, 'a method such as GET')
  if (typeof path !== 'string' || CONTROL.test(path)) throw wrong('path', path, 'a path such as /login')
  if (typeof ip !== 'string') throw wrong('ip', ip, 'an address such as 203.0.113.7')
  if (!isUser(user)) throw wrong('user', user, 'an id, an object with the fields of the user, or null')
  if (headers !== undefined) validateHeaders(headers)
  if (cost !== undefined && !isCost(cost)) throw wrong('cost', cost, `an integer, 1 to ${MAX_COST}`)
  return { method: method.toUpperCase(), path, ip, user, headers, cost }
}

function wrong(option: string, value: unknown, remedy: string): Error {
  const is = value === undefined ? 'missing' : shown(value)
  return new InvalidSettingError(`Option "${option}" is ${is}: give ${remedy}`)
}

function isUser(user: unknown): user is ConsumeOptions['user'] {
  if (typeof user === 'string') return !user.includes('\0')
  return user === undefined || ['object', 'number', 'bigint'].includes(typeof user)
}

/** The message has no value: it may be a secret. */
function validateHeaders(headers: unknown): asserts headers is RequestDescription['headers'] {
  // A Map and the Headers of fetch have no fields, and would be read as none.
  if (typeof headers !== 'object' || headers === null || Symbol.iterator in headers) {
    throw wrong('headers', headers, 'an object of texts by name')
  }
  for (const name of Object.keys(headers)) {
    const value: unknown = Reflect.get(headers, name)
    const isValid = HEADER_NAME.test(name) && (Array.isArray(value) ? value.every(isHeaderValue) : isHeaderValue(value))
    if (value === undefined || isValid) continue
    throw new InvalidSettingError(`Option "headers" is wrong at ${shown(name)}: give a text, or a list of texts`)
  }
}

function isHeaderValue(value: unknown): boolean {
  return typeof value === 'string' && !CONTROL.test(value)
}
