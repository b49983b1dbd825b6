/** What is noted of a decision, resolved when the plugin is registered: nothing, its event, its count, or both. */
import type { EventOutcome } from './events/event.js'
import type { Outcome } from './http/decide.js'
import type { OnRequestSteps } from './http/on-request.js'
import { createReceivedPath } from './http/request-path.js'
import { integerUserId } from './http/request-user.js'
import type { StepParts } from './steps.js'

type RecordStep = OnRequestSteps['record']

/** Of the plugin's own check. */
export function createRecord(parts: StepParts): RecordStep {
  const count = createCount(parts)
  const recordEvent = createEventRecord(parts)
  if (count === undefined || recordEvent === undefined) return count ?? recordEvent ?? recordNothing
  return function record(request, outcome) {
    count(request, outcome)
    recordEvent(request, outcome)
  }
}

/** Of the limits of single routes, which log no event. */
export function createRouteRecord(parts: StepParts): RecordStep {
  return createCount(parts) ?? recordNothing
}

function recordNothing(): void {}

function createCount({ metrics }: StepParts): RecordStep | undefined {
  return metrics && ((_request, { limit, decision }) => metrics.count(limit, decision.allowed))
}

function createEventRecord({ settings: { logEvents }, router, addresses, events }: StepParts): RecordStep | undefined {
  if (logEvents === false) return undefined
  const blockedOnly = logEvents === 'blocked'
  const receivedPath = createReceivedPath(router)
  return function recordEvent(request, outcome) {
    const { decision, client } = outcome
    if (blockedOnly && decision.allowed) return
    events.record({
      timestampMs: outcome.nowMs,
      key: client.name,
      ruleName: outcome.limit.ruleName,
      path: receivedPath(request.originalUrl),
      method: request.method,
      allowed: !outcome.refused,
      count: decision.count,
      limit: decision.limit,
      ipAddress: addresses.peer(request),
      userId: integerUserId(outcome.user),
      clientIp: client.byAddress && outcome.address.plain !== null ? outcome.address.key : null,
      client: client.client,
      policy: outcome.limit.policyName,
      outcome: eventOutcome(outcome),
    })
  }
}

function eventOutcome({ denied, refused, decision }: Outcome): EventOutcome {
  if (denied) return 'denied'
  if (decision.unavailable) return refused ? 'unavailable' : 'allowed'
  return decision.allowed ? 'allowed' : 'over_limit'
}
