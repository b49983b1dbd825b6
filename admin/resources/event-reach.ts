/** How far back the list of events looks. */
import type { ActionContext, ActionRequest, ActionResponse } from 'adminjs'
import type { RateLimitClient } from '../../src/client.js'
import { formatCount, formatTime } from '../../src/dashboard/format.js'
import { type Clock, DAY_MS } from '../../src/time/clock.js'
import { type Condition, type FilterValues, isExactly, isTrue, isWithin, textOf } from '../conditions.js'
import { notice } from './actions.js'

/** Filters that no index helps: all requests of the window would have to be looked at, of which there may be millions. */
const UNAIDED = ['ruleName', 'path', 'ipAddress'] as const
/** So many of the newest are: a few hundredths of a second. */
const LOOKED_AT = 50_000
/** Fewer of one client, whose events lie apart from each other in the table. */
const LOOKED_AT_OF_CLIENT = 20_000

function lookedAt({ key }: FilterValues): number {
  return textOf(key) === '' ? LOOKED_AT : LOOKED_AT_OF_CLIENT
}

/** Of one client's events, those that were blocked, say: there is an index for the client, and one for the decision. */
function isOfClient({ key, allowed }: FilterValues): boolean {
  return textOf(key) !== '' && isTrue('allowed', allowed) !== undefined
}

function decisionOf(values: FilterValues): Condition {
  // Not by an equation, for which SQLite would take the index of the decision, and read the events of all clients.
  if (isOfClient(values)) return { allowed: { not: values.allowed !== 'true' } }
  return isTrue('allowed', values.allowed) ?? {}
}

/** Where a list ends that does not look at all of its window. */
interface Bound {
  /** The newest event that is not looked at. */
  readonly at: Date
  readonly lookedAt: number
}

export function createEventReach(client: RateLimitClient, clock: Clock) {
  /** By the call that it is for: the rows of a page, their count and its notice share one. */
  const bounds = new WeakMap<ActionContext, Promise<Bound | undefined>>()

  function windowOf({ timestamp }: FilterValues): Condition {
    return isWithin('timestamp', timestamp) ?? { timestamp: { gte: new Date(clock.now() - DAY_MS) } }
  }

  /** Undefined where all of the window is looked at. */
  async function findBound(values: FilterValues): Promise<Bound | undefined> {
    if (UNAIDED.every((name) => textOf(values[name]) === '') && !isOfClient(values)) return undefined
    const most = lookedAt(values)
    const row = await client.rateLimitEvent.findFirst({
      where: { AND: [windowOf(values), isExactly('key', values.key) ?? {}] },
      orderBy: { timestamp: 'desc' },
      skip: most,
      select: { timestamp: true },
    })
    return row === null ? undefined : { at: row.timestamp, lookedAt: most }
  }

  function boundOf(values: FilterValues, context: ActionContext | undefined): Promise<Bound | undefined> {
    const bound = (context && bounds.get(context)) ?? findBound(values)
    if (context !== undefined) bounds.set(context, bound)
    return bound
  }

  async function condition(values: FilterValues, context?: ActionContext): Promise<Condition> {
    const window = windowOf(values)
    const bound = await boundOf(values, context)
    // Of two lower bounds, SQLite may look from the farther one on.
    const reach = bound === undefined ? window.timestamp : { ...Object(window.timestamp), gte: undefined, gt: bound.at }
    return { AND: [{ timestamp: reach }, decisionOf(values)] }
  }

  /** Says so where the list did not look at all of the window. */
  async function tell(response: ActionResponse, _request: ActionRequest, context: ActionContext) {
    const bound = await bounds.get(context)
    if (bound === undefined) return response
    const text = `Only the newest ${formatCount(bound.lookedAt)} requests were searched, back to ${formatTime(bound.at.getTime())} UTC. Filter by time to look further back.`
    return { ...response, notice: notice(text, 'info') }
  }

  return { condition, tell }
}
