/** The records of a decision, resolved when the plugin is registered: nothing, its event, its count, or both. */
import type { EventOutcome } from '../events/event.js'
import type { CheckedRequest } from '../http/decide.js'
import type { HookDependencies } from '../http/on-request.js'
import { createReceivedPath } from '../http/request-path.js'
import { integerUserId } from '../http/request-user.js'
import type { HookComponents } from './hook.js'

type RecordStep = HookDependencies['record']

/** Creates the record step of the plugin's hook. */
export function createRecord(components: HookComponents): RecordStep {
  const count = createCount(components)
  const recordEvent = createEventRecord(components)
  if (count === undefined || recordEvent === undefined) return count ?? recordEvent ?? recordNothing
  return function record(checked) {
    count(checked)
    recordEvent(checked)
  }
}

/** Creates the record step of limits for single routes, which log no event. */
export function createRouteRecord(components: HookComponents): RecordStep {
  return createCount(components) ?? recordNothing
}

function recordNothing(): void {}

function createCount({ metrics }: HookComponents): RecordStep | undefined {
  return metrics && (({ limit, decision }) => metrics.count(limit, decision.allowed))
}

function createEventRecord({
  settings: { logEvents },
  router,
  addresses,
  events,
}: HookComponents): RecordStep | undefined {
  if (logEvents === false) return undefined
  const blockedOnly = logEvents === 'blocked'
  const receivedPath = createReceivedPath(router)
  return function recordEvent(checked) {
    const { request, address, limit, client, decision } = checked
    if (blockedOnly && decision.allowed) return
    events.record({
      timestampMs: checked.nowMs,
      key: client.name,
      ruleName: limit.ruleName,
      path: receivedPath(request.originalUrl),
      method: request.method,
      allowed: !checked.isRefused,
      count: decision.count,
      limit: decision.limit,
      ipAddress: addresses.peer(request),
      userId: integerUserId(checked.user),
      clientIp: client.byAddress && address.plain !== null ? address.key : null,
      client: client.client,
      policy: limit.policyName,
      outcome: outcomeFor(checked),
    })
  }
}

function outcomeFor({ limit, isRefused, decision }: CheckedRequest): EventOutcome {
  if (limit.isDenial) return 'denied'
  if (decision.unavailable) return isRefused ? 'unavailable' : 'allowed'
  return decision.allowed ? 'allowed' : 'over_limit'
}
