/** Tells which limits count a described request as a client that its description leaves open. */

import { isByAddress } from '../../clients/client.js'
import { partName, partsFor } from '../../clients/client-kind.js'
import type { LimitClient } from '../../clients/limit-client.js'
import type { Check, Decision } from '../../limiter/algorithm.js'
import { decideWithoutStore } from '../../limiter/fallback.js'
import type { CheckedRequest, Limit } from '../checked-request.js'
import type { HookDependencies } from '../on-request.js'

/** What the log says of a request, of which it has neither the headers nor the fields of the user. */
export interface LoggedClient {
  /** The client of the request's events: that of its limit without a group. */
  readonly client: string
  /** The policies of these events. */
  readonly policies: readonly string[]
}

/** What is known of the client of a described request. */
export interface KnownClient {
  readonly hasAddress: boolean
  /** Whether fields that the user lacks are none of the user: an id alone says nothing of them. */
  readonly hasFields: boolean
  /** Set where the log describes the request: what it lacks may have been there. */
  readonly logged: LoggedClient | undefined
}

/** The names of what is missing, by the limits that need it. */
export type MissingByLimit = ReadonlyMap<Limit, readonly string[]>

/** Creates a hook that asks for no limit whose client is not known: the counter would be another client's. */
export function askKnownClients(hook: HookDependencies, checked: CheckedRequest, known: KnownClient) {
  const missing = new Map<Limit, readonly string[]>()

  function isKnown(check: Check): boolean {
    const { applied = [] } = checked
    const { limit, client } = applied.find((each) => each.check === check) ?? checked
    const names = missingFor(limit, client, known, applied.length === 0 || applied[0]?.limit === limit)
    missing.set(limit, names)
    return names.length === 0
  }

  const asking: HookDependencies = {
    ...hook,
    // All limits of a request are asked: each says what is left.
    remembered: () => undefined,
    check: (check, ...times) => (isKnown(check) ? hook.check(check, ...times) : unasked(check)),
    checkLeased: (check, ...times) => (isKnown(check) ? hook.checkLeased(check, ...times) : unasked(check)),
    takePermits: (of, check, leads) => (isKnown(check) ? hook.takePermits(of, check, leads) : unasked(check)),
    ceiling: hook.ceiling && {
      ...hook.ceiling,
      check: (check, ...times) =>
        hook.ceiling === undefined || !known.hasAddress ? unasked(check) : hook.ceiling.check(check, ...times),
    },
  }
  return { asking, missing }
}

/** Returns the answer to a check that nobody was asked. */
function unasked(check: Check): Decision {
  return { ...decideWithoutStore(true, check), unavailable: true }
}

/**
 * Returns the names of what is missing, as keys of limits have them; none where the limit counts the client.
 *
 * @param isFirst whether it is the limit without a group, whose client the log names
 */
function missingFor(
  { kind, policyName }: Limit,
  { counted, logged }: LimitClient,
  { hasAddress, hasFields, logged: event }: KnownClient,
  isFirst: boolean,
): string[] {
  if (isFirst && event?.client === logged.text && event.policies.includes(policyName)) return []
  const has = (name: string) => counted.parts.some((part) => part.name === name && part.value !== null)
  const lacking =
    kind === null
      ? []
      : partsFor(kind)
          .map(partName)
          .filter((name) => !has(name))
  // What a request lacks is made up for by its address.
  if (!hasAddress && isByAddress(counted)) return [...lacking, 'ip']
  if (event !== undefined) return lacking
  return hasFields ? [] : lacking.filter((name) => name.startsWith('user.'))
}
