import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { storable } from '../../ground/storable.js'

const MAX_ACTOR_LENGTH = 200
/** The bytes of the token that the triggers cut off, in base64: see the migration. */
const TOKEN_BYTES = 9

/** The sources of changes; `sql` is everything that is not a write of this package. */
export const CHANGE_SOURCES = ['client', 'sql', 'panel', 'dashboard', 'api', 'ban', 'import'] as const
export type ChangeSource = (typeof CHANGE_SOURCES)[number]

interface Author {
  readonly actor: string
  readonly source: ChangeSource
}

const UNKNOWN: Author = { actor: '', source: 'client' }

const authors = new AsyncLocalStorage<Author>()

/**
 * Runs `work`, and names the actor of its changes of rules and overrides in their history.
 *
 * @param actor a name or an email address; cut at 200 characters
 * @returns the result of `work`
 */
export function asActor<T>(actor: string, work: () => PromiseLike<T>): Promise<T> {
  // Awaited inside: Prisma starts a query only when it is awaited.
  return authors.run({ ...currentAuthor(), actor: storable(actor, MAX_ACTOR_LENGTH) }, async () => await work())
}

/** Runs `work`, and names the source of its changes in the history. Their actor stays the current one. */
export function fromSource<T>(source: ChangeSource, work: () => PromiseLike<T>): Promise<T> {
  return authors.run({ ...currentAuthor(), source }, async () => await work())
}

/** Returns the actor, empty where none was named, and the source of the changes that are made now. */
export function currentAuthor(): Author {
  return authors.getStore() ?? UNKNOWN
}

/**
 * Returns a write's `changedBy`: a token, the source, a colon and the actor. It is unique, so that the triggers can
 * distinguish it from that of an older write.
 */
export function changeToken({ source, actor }: Author = currentAuthor()): string {
  return `${randomBytes(TOKEN_BYTES).toString('base64url')}${source}:${actor}`
}
