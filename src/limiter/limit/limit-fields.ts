/** The fields of a limit: each is described once, for every place where people write one. */
import { MAX_CLIENT_KIND_LENGTH, parseClientKind, spellClientKind } from '../../clients/client-kind.js'
import { BOOLEAN, type Field, integer, upTo } from '../../ground/field.js'
import { explain } from '../../ground/setting.js'
import { UNIT as NAME, parseUnit, REQUESTS } from '../../ground/unit.js'
import { ALGORITHMS, type Algorithm, validateAlgorithm } from '../algorithm.js'
import { MAX_COST, MAX_RESERVE } from '../cost.js'
import { MAX_RATE_LENGTH, parseRate } from '../rate.js'
import { spellRate } from '../rate-words.js'
import { COUNTS } from './counted-statuses.js'
import { NOTICE_AT } from './notice-at.js'

/**
 * Where people write a limit: a rule or an override of the database, `limit()` and the configuration of a route,
 * `createLimiter`, and the setting `middleware`.
 */
export type Surface = 'rule' | 'override' | 'route' | 'code' | 'middleware'

export interface LimitField extends Field {
  readonly where: readonly Surface[]
  /** The values that a setting of this field accepts, for messages. */
  readonly allowed: string
  /** Whether a function of the request may answer the value, in code that limits requests. */
  readonly takesFunctions?: true
}

const EVERYWHERE = ['rule', 'route', 'code', 'middleware'] as const
/** Where a limit is for requests. */
const OF_REQUESTS = ['rule', 'route', 'middleware'] as const
const MAX_UNIT_LENGTH = 30

const ALGORITHM_LABELS: Readonly<Record<Algorithm, string>> = {
  fixed_window: 'Fixed window: periods by the clock',
  sliding_window: 'Sliding window: the period before now',
  token_bucket: 'Token bucket: a burst, then evenly',
  leaky_bucket: 'Leaky bucket: a burst, then evenly',
  concurrency: 'Concurrency: requests in progress at the same time',
}

/** The fields, in the order of documents. A new one is added here, and where it acts. */
export const LIMIT_FIELDS = {
  rate: {
    where: EVERYWHERE,
    kind: 'text',
    allowed: 'a rate such as 100/m',
    takesFunctions: true,
    parse: upTo(MAX_RATE_LENGTH, parseRate),
    tidy: (typed) => typed.replace(/\s/g, '').toLowerCase(),
    guess: spellRate,
    schema: { maxLength: MAX_RATE_LENGTH },
    about: 'Such as 100/m, 10/30s, 10000/month, or up to four windows: 10/s, 1000/h.',
    help: 'Requests per period: 100/m, 10/30s, 5000/7d, 10000/month. Up to four windows with commas between: 10/s, 1000/h. A count of 0 refuses everything.',
    panel: { title: 'Rate', group: 'Limit', input: 'code', example: '100/m', column: 'sorted' },
  },
  key: {
    where: OF_REQUESTS,
    kind: 'text',
    default: 'ip',
    allowed: 'ip, user, user.<field>, header:<Name>, cookie:<name>, route, up to three with + between, all',
    takesFunctions: true,
    parse: parseClientKind,
    tidy: spellClientKind,
    guess: (typed) => spellClientKind(typed.replace(/\s*(?:,|&|\band\b)\s*/gi, '+')),
    schema: { maxLength: MAX_CLIENT_KIND_LENGTH },
    about: 'ip, user, user.<field>, route, header:<Header-Name> or cookie:<name>, up to three with + between, or all.',
    help: 'What requests are counted by, up to three together. user.org is a field of what the option user answers. Requests without the user, the field, the header or the cookie are counted by IP address.',
    panel: {
      title: 'Counted by',
      noun: 'client kind',
      group: 'Target',
      input: 'key',
      options: [
        { value: 'ip', label: 'IP address' },
        { value: 'user', label: 'User' },
        { value: 'user.', label: 'Field of the user, such as user.org' },
        { value: 'header:', label: 'Header' },
        { value: 'cookie:', label: 'Cookie' },
        { value: 'route', label: 'Route' },
        { value: 'all', label: 'Nothing: all share one counter' },
      ],
      column: 'shown',
    },
  },
  algorithm: {
    where: [...EVERYWHERE, 'override'],
    kind: 'text',
    default: 'fixed_window',
    allowed: ALGORITHMS.join(', '),
    parse: validateAlgorithm,
    schema: { enum: ALGORITHMS },
    about: 'How requests are counted; concurrency counts those in progress: 20/60s is at most 20 at a time.',
    panel: {
      title: 'Algorithm',
      input: 'select',
      options: ALGORITHMS.map((value) => ({ value, label: ALGORITHM_LABELS[value] })),
    },
  },
  counts: { ...COUNTS, where: OF_REQUESTS, allowed: 'requests, or statuses such as 401,403 or 4xx,5xx' },
  cost: {
    where: ['rule', 'route', 'code'],
    ...integer(1, MAX_COST),
    default: 1,
    allowed: `an integer, 1 to ${MAX_COST}`,
    takesFunctions: true,
    about: 'The part of the limit that a request uses, times the cost of its route.',
    help: 'How much of the rate a request uses: with 10 and a rate of 100/m, ten requests a minute. At most the count of the rate.',
    panel: { title: 'Cost', group: 'Counting', input: 'number' },
  },
  unit: {
    where: EVERYWHERE,
    kind: 'text',
    default: REQUESTS,
    allowed: 'requests, or a unit such as tokens',
    parse: parseUnit,
    tidy: (typed) => typed.trim().toLowerCase(),
    guess: spellUnit,
    schema: { maxLength: MAX_UNIT_LENGTH, pattern: NAME.source },
    about: 'What the rate counts: requests, or a unit that the app charges, such as tokens.',
    help: 'What the rate counts: requests, or what a request turns out to have used, such as tokens or bytes, which the app charges: app.smartRateLimit.charge(request, { tokens: 1834 }).',
    panel: { title: 'Unit', group: 'Counting', input: 'text', example: 'tokens' },
  },
  reserve: {
    where: EVERYWHERE,
    ...integer(0, MAX_RESERVE),
    default: 0,
    allowed: `an integer, 0 to ${MAX_RESERVE}`,
    takesFunctions: true,
    about: 'How much of the unit a request takes in advance. With 0 it passes while anything is left.',
    help: 'How much of the unit a request takes in advance, until it is charged for what it used. With 0 it passes while anything is left. At most the count of the rate.',
    panel: { title: 'Reserve', group: 'Counting', input: 'number' },
  },
  noticeAt: { ...NOTICE_AT, where: OF_REQUESTS, allowed: 'percentages such as 80,100' },
  block: {
    where: OF_REQUESTS,
    ...BOOLEAN,
    default: true,
    allowed: 'true or false',
    about: 'false counts and logs requests, and refuses none.',
    help: 'Off: requests are counted and logged, and none is refused.',
    panel: {
      title: 'Refuses',
      noun: 'blocking',
      group: 'Limit',
      input: 'boolean',
      label: 'Refuse requests over the limit',
    },
  },
} as const satisfies Readonly<Record<string, LimitField>>

type LimitFields = typeof LIMIT_FIELDS

/** The fields that a limit may have on a surface. */
export type FieldsOn<On extends Surface> = {
  readonly [Name in keyof LimitFields as On extends LimitFields[Name]['where'][number]
    ? Name
    : never]: LimitFields[Name]
}

/** A field as a setting. Functions of the request are for code that limits requests. */
type FieldSetting<Described extends LimitField, On extends Surface> = {
  readonly accepts: (value: unknown) => boolean
  readonly allowed: string
  parse(value: unknown, called: string): ReturnType<Described['parse']>
} & {
  readonly [Key in Extract<keyof Described, 'default' | (On extends 'code' ? never : 'takesFunctions')>]: Described[Key]
}

type SettingsOn<On extends Surface> = {
  readonly [Name in keyof FieldsOn<On>]: FieldSetting<Extract<FieldsOn<On>[Name], LimitField>, On>
}

/** Returns the fields of a limit on a surface. */
export function limitFields<On extends Surface>(on: On): FieldsOn<On> {
  const fields = Object.entries<LimitField>(LIMIT_FIELDS).filter(([, { where }]) => where.includes(on))
  // The compiler cannot follow a loop over the table.
  return Object.fromEntries(fields) as unknown as FieldsOn<On>
}

/** Returns them as settings. */
export function limitSettings<On extends Surface>(on: On): SettingsOn<On> {
  const settings = Object.entries<LimitField>(limitFields(on)).map(([name, field]) => [name, toSetting(field, on)])
  // The compiler cannot follow a loop over the table.
  return Object.fromEntries(settings) as unknown as SettingsOn<On>
}

function toSetting({ takesFunctions, allowed, kind, parse, ...field }: LimitField, on: Surface) {
  const isForRequests = takesFunctions === true && on !== 'code'
  const isValue =
    kind === 'text' ? (value: unknown) => typeof value === 'string' : (value: unknown) => canParse(parse, value)
  return {
    ...('default' in field && { default: field.default }),
    ...(isForRequests && { takesFunctions }),
    allowed: isForRequests ? `${allowed}, or a function of the request` : allowed,
    accepts: (value: unknown) => isValue(value) || (isForRequests && typeof value === 'function'),
    parse: (value: unknown, called: string) => explain(called, value, () => parse(value)),
  }
}

function canParse(parse: Field['parse'], value: unknown): boolean {
  try {
    parse(value)
    return true
  } catch {
    return false
  }
}

/** Returns a unit that is allowed, with most letters of one that is not. */
function spellUnit(typed: string): string | undefined {
  const unit = typed.toLowerCase().replace(/[^a-z0-9_-]+/g, '-')
  return unit.replace(/^[^a-z]+|-+$/g, '').slice(0, MAX_UNIT_LENGTH) || undefined
}
