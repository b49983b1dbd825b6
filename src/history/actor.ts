import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { storable } from '../db/storable.js'

const MAX_ACTOR_LENGTH = 200
/** The triggers cut so many characters off, in base64: see the migration. */
const TOKEN_BYTES = 9

const actors = new AsyncLocalStorage<string>()

/**
 * Says who makes the changes of rules and overrides in `work`, for their history.
 *
 * @param actor a name, an email address; cut at 200 characters
 * @returns what `work` resolves to
 */
export function asActor<T>(actor: string, work: () => PromiseLike<T>): Promise<T> {
  // Waited for inside: Prisma starts a query only when somebody waits for it.
  return actors.run(storable(actor, MAX_ACTOR_LENGTH), async () => await work())
}

/** Empty where nobody was named. */
export function currentActor(): string {
  return actors.getStore() ?? ''
}

/** What a write sets `changedBy` to: never the same twice, so that the triggers can tell it from an older one. */
export function changeToken(): string {
  return randomBytes(TOKEN_BYTES).toString('base64url') + currentActor()
}
