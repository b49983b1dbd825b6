import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { storable } from '../db/storable.js'

const MAX_ACTOR_LENGTH = 200
/** The bytes of the token that the triggers cut off, in base64: see the migration. */
const TOKEN_BYTES = 9

const actors = new AsyncLocalStorage<string>()

/**
 * Runs `work`, and names the actor of its changes of rules and overrides in their history.
 *
 * @param actor a name or an email address; cut at 200 characters
 * @returns the result of `work`
 */
export function asActor<T>(actor: string, work: () => PromiseLike<T>): Promise<T> {
  // Awaited inside: Prisma starts a query only when it is awaited.
  return actors.run(storable(actor, MAX_ACTOR_LENGTH), async () => await work())
}

/** Returns the current actor; empty where none was named. */
export function currentActor(): string {
  return actors.getStore() ?? ''
}

/** Returns a write's `changedBy`: unique, so that the triggers can distinguish it from that of an older write. */
export function changeToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url') + currentActor()
}
