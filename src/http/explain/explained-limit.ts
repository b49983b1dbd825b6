import { formatCount } from '../../ground/number-text.js'
import { REQUESTS } from '../../ground/unit.js'
import type { Decision } from '../../limiter/algorithm.js'
import { type Limit, UNLIMITED } from '../checked-request.js'
import { costUnder } from '../cost.js'

/** A limit, and whether it checks the request. */
export interface ExplainedLimit {
  /**
   * A rule's name, a prefix such as `/auth/`, `default`, `override`, `deny-list`, `allow-list`, `ceiling`, `path-length`, or the name of
   * a limit of the route (`route` without one).
   */
  readonly policy: string
  /** The group of the rule; empty where it has none, and for what is no rule. */
  readonly group: string
  /** The rate, such as `100/m`; null where there is none. */
  readonly rate: string | null
  /** What the limit counts: `requests`, or what the app charges, such as `tokens`. */
  readonly unit: string
  readonly applies: boolean
  /** A sentence. */
  readonly why: string
  /** What the request takes: its cost, or what a limit of another unit reserves. Null where the limit does not apply, or counts nothing. */
  readonly cost: number | null
  /** The usage of the client, without this request, in the window with the smallest share left; null as `cost`. */
  readonly count: number | null
  /** The limit of that window; null as `cost`. */
  readonly limit: number | null
  readonly remaining: number | null
}

/** A limit, and its answer to a check of cost 0. */
export interface Answer<Asked = Pick<Limit, 'unit' | 'reserve' | 'block' | 'cost'> & Partial<Pick<Limit, 'answer'>>> {
  readonly limit: Asked
  readonly decision: Decision | undefined
  /** The names of what is missing of the request to know the client that is counted. */
  readonly missing?: readonly string[] | undefined
}

const REFUSES_NOTHING = ' It refuses nothing: "block" is false.'
const HAS_NO_LIMIT = ' The function answers that this request has no limit.'

export function withoutStanding(
  policy: string,
  rate: string | null,
  unit: string,
  applies: boolean,
  why: string,
  group = '',
): ExplainedLimit {
  return { policy, group, rate, unit, applies, why, cost: null, count: null, limit: null, remaining: null }
}

/** @param answer undefined where nothing is counted */
export function withStanding(
  policy: string,
  rate: string | null,
  why: string,
  answer: Answer | undefined,
  group = '',
): ExplainedLimit {
  if (answer === undefined) return withoutStanding(policy, rate, REQUESTS, true, why, group)
  const { limit, decision, missing = [] } = answer
  const { unit, reserve, block } = limit
  if (limit.answer === UNLIMITED) return withoutStanding(policy, rate, unit, true, why + HAS_NO_LIMIT, group)
  const reserves = reserve > 0 ? ` The request reserves ${formatCount(reserve)} ${unit}.` : ''
  const unknown = missing.length > 0 ? ` What is used of it is not known without ${missing.join(' or ')}.` : ''
  const sentences = why + reserves + (block ? '' : REFUSES_NOTHING) + unknown
  const explained = withoutStanding(policy, rate, unit, true, sentences, group)
  if (decision === undefined || decision.unavailable) return explained
  // A refused question counts 1 that is not there, where a limit does not count what it refuses.
  const count = decision.count - (unit === REQUESTS || decision.allowed ? 0 : 1)
  return { ...explained, cost: costUnder(limit, 1), count, limit: decision.limit, remaining: decision.remaining }
}
