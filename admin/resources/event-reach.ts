/** The reach of the list of events: how far back it searches. */
import type { ActionContext, ActionRequest, ActionResponse } from 'adminjs'
import { type Clock, DAY_MS } from '../../src/ground/time/clock.js'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import { formatCount, formatTime } from '../../src/staff/dashboard/format.js'
import { type Condition, type FilterKind, type FilterValues, isWithin, toFilterText } from '../conditions.js'
import { notice } from './actions.js'

/** Filters without an index: they would have to read all requests of the window, of which there may be millions. */
const UNAIDED = ['ruleName', 'path', 'ipAddress'] as const
/** How many of the newest requests are searched, which takes a few hundredths of a second. */
const LOOKED_AT = 50_000
/** The same for a single client, whose events are scattered over the table. */
const LOOKED_AT_OF_CLIENT = 20_000

function searched({ key }: FilterValues): number {
  return toFilterText(key) === '' ? LOOKED_AT : LOOKED_AT_OF_CLIENT
}

/** The decisions that the list is filtered by. */
export const DECISIONS = [
  { value: 'over_limit', label: 'Over the limit', allowed: false, outcome: { outcome: { not: 'denied' } } },
  { value: 'denied', label: 'Denied', allowed: false, outcome: { outcome: 'denied' } },
  { value: 'false', label: 'Refused (both)', allowed: false, outcome: {} },
  { value: 'true', label: 'Allowed', allowed: true, outcome: {} },
] as const

function chosenDecision({ allowed }: FilterValues) {
  return DECISIONS.find(({ value }) => value === allowed)
}

/** Returns whether the filter has a client and a decision, which have separate indexes. */
function isOfClient(values: FilterValues): boolean {
  return toFilterText(values.key) !== '' && chosenDecision(values) !== undefined
}

function decisionFor(values: FilterValues): Condition {
  const decision = chosenDecision(values)
  if (decision === undefined) return {}
  const { allowed, outcome } = decision
  // For an equation SQLite would use the index of the decision, and read the events of all clients.
  return { allowed: isOfClient(values) ? { not: !allowed } : allowed, ...outcome }
}

/** The end of a list that searches only a part of its window. */
interface Bound {
  /** The time of the newest event that is not searched. */
  readonly at: Date
  readonly searched: number
}

/** @param isClient the filter by key */
export function createEventReach(client: RateLimitClient, clock: Clock, isClient: FilterKind) {
  /** The bounds by call: the rows of a page, their count and its notice share one. */
  const bounds = new WeakMap<ActionContext, Promise<Bound | undefined>>()

  function windowFor({ timestamp }: FilterValues): Condition {
    return isWithin('timestamp', timestamp) ?? { timestamp: { gte: new Date(clock.now() - DAY_MS) } }
  }

  /** Returns undefined where the whole window is searched. */
  async function findBound(values: FilterValues): Promise<Bound | undefined> {
    if (UNAIDED.every((name) => toFilterText(values[name]) === '') && !isOfClient(values)) return undefined
    const most = searched(values)
    const row = await client.rateLimitEvent.findFirst({
      where: { AND: [windowFor(values), isClient('key', values.key) ?? {}] },
      orderBy: { timestamp: 'desc' },
      skip: most,
      select: { timestamp: true },
    })
    return row === null ? undefined : { at: row.timestamp, searched: most }
  }

  function boundFor(values: FilterValues, context: ActionContext | undefined): Promise<Bound | undefined> {
    const bound = (context && bounds.get(context)) ?? findBound(values)
    if (context !== undefined) bounds.set(context, bound)
    return bound
  }

  async function condition(values: FilterValues, context?: ActionContext): Promise<Condition> {
    const window = windowFor(values)
    const bound = await boundFor(values, context)
    // Replaces the window's lower bound, since SQLite may use the farther one of two.
    const reach = bound === undefined ? window.timestamp : { ...Object(window.timestamp), gte: undefined, gt: bound.at }
    return { AND: [{ timestamp: reach }, decisionFor(values)] }
  }

  /** Adds a notice where the list searched only a part of the window. */
  async function addNote(response: ActionResponse, _request: ActionRequest, context: ActionContext) {
    const bound = await bounds.get(context)
    if (bound === undefined) return response
    const text = `Only the newest ${formatCount(bound.searched)} requests were searched, back to ${formatTime(bound.at.getTime())} UTC. Filter by time to look further back.`
    return { ...response, notice: notice(text, 'info') }
  }

  return { condition, addNote }
}
