/** The reach of the list of events: how far back it searches. */
import type { ActionContext, ActionRequest, ActionResponse } from 'adminjs'
import { type Clock, DAY_MS } from '../../src/ground/time/clock.js'
import type { RateLimitClient } from '../../src/plugin/client/client.js'
import { formatCount, formatTime } from '../../src/staff/dashboard/format.js'
import { type Condition, type FilterValues, isWithin, toFilterText } from '../conditions.js'
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

/** The events of the clients that an operator means. */
export interface ClientConditions {
  readonly condition: Condition
  /** The keys that the log has them under. */
  readonly keys: readonly string[]
  /** Whether they are too many to be searched for, as in a large network. */
  readonly hasTooMany: boolean
}

/** The end of a list that searches only a part of its window. */
interface Bound {
  /** The time of the newest event that is not searched. */
  readonly at: Date
  readonly searched: number
}

const EVERYBODY: ClientConditions = { condition: {}, keys: [], hasTooMany: false }
const TOO_MANY = 'The log has too many clients in this network to list them here. Search for a smaller one.'

/** What a list searches, which the rows of a page, their count and its notice share. */
interface Reach {
  readonly clients: ClientConditions
  readonly bound: Bound | undefined
}

/** @param findClients returns the condition of the events of clients that an operator means */
export function createEventReach(
  client: RateLimitClient,
  clock: Clock,
  findClients: (text: string) => Promise<ClientConditions>,
) {
  const reaches = new WeakMap<ActionContext, Promise<Reach>>()

  function windowFor({ timestamp }: FilterValues): Condition {
    return isWithin('timestamp', timestamp) ?? { timestamp: { gte: new Date(clock.now() - DAY_MS) } }
  }

  async function findReach(values: FilterValues): Promise<Reach> {
    const text = toFilterText(values.key)
    const clients = text === '' ? EVERYBODY : await findClients(text)
    return { clients, bound: await findBound(values, clients) }
  }

  /** Returns undefined where the whole window is searched. */
  async function findBound(values: FilterValues, { condition, keys }: ClientConditions): Promise<Bound | undefined> {
    // The events of one key are in order in their index, those of several are not.
    const isInOrder = keys.length < 2
    if (UNAIDED.every((name) => toFilterText(values[name]) === '') && !isOfClient(values) && isInOrder) return undefined
    const most = searched(values)
    const ofEach = isInOrder ? [condition] : keys.map((key) => ({ key }))
    const rows = await Promise.all(
      ofEach.map((its) =>
        client.rateLimitEvent.findFirst({
          where: { AND: [windowFor(values), its] },
          orderBy: { timestamp: 'desc' },
          skip: Math.floor(most / ofEach.length),
          select: { timestamp: true },
        }),
      ),
    )
    const [newest] = rows
      .flatMap((row) => (row === null ? [] : [row.timestamp]))
      .toSorted((one, other) => other.getTime() - one.getTime())
    return newest === undefined ? undefined : { at: newest, searched: most }
  }

  function reachOf(values: FilterValues, context: ActionContext | undefined): Promise<Reach> {
    const reach = (context && reaches.get(context)) ?? findReach(values)
    if (context !== undefined) reaches.set(context, reach)
    return reach
  }

  async function condition(values: FilterValues, context?: ActionContext): Promise<Condition> {
    const window = windowFor(values)
    const { clients, bound } = await reachOf(values, context)
    // Replaces the window's lower bound, since SQLite may use the farther one of two.
    const reach = bound === undefined ? window.timestamp : { ...Object(window.timestamp), gte: undefined, gt: bound.at }
    return { AND: [{ timestamp: reach }, clients.condition, decisionFor(values)] }
  }

  /** Adds a notice where the list searched only a part of the window. */
  async function addNote(response: ActionResponse, _request: ActionRequest, context: ActionContext) {
    const { clients, bound } = (await reaches.get(context)) ?? {}
    if (clients?.hasTooMany) return { ...response, notice: notice(TOO_MANY, 'info') }
    if (bound === undefined) return response
    const text = `Only the newest ${formatCount(bound.searched)} requests were searched, back to ${formatTime(bound.at.getTime())} UTC. Filter by time to look further back.`
    return { ...response, notice: notice(text, 'info') }
  }

  return { condition, addNote }
}
