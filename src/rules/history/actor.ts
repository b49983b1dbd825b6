import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { storable } from '../../ground/storable.js'

const MAX_ACTOR_LENGTH = 200
/** The bytes of an action's id, which is 12 characters in base64: see the migration. */
const ACTION_BYTES = 9
/** The bytes that make a write unlike the others of its action: four characters. */
const WRITE_BYTES = 3

/** The sources of changes; `sql` is everything that is not a write of this package. */
export const CHANGE_SOURCES = ['client', 'sql', 'panel', 'dashboard', 'api', 'ban', 'import'] as const
export type ChangeSource = (typeof CHANGE_SOURCES)[number]

export interface Author {
  readonly actor: string
  readonly source: ChangeSource
  /** The id that all changes of an action share. */
  readonly actionId: string
}

const UNKNOWN = { actor: '', source: 'client' } as const

const authors = new AsyncLocalStorage<Omit<Author, 'actionId'> & Partial<Author>>()

/**
 * Runs `work`, and names the actor of its changes of rules and overrides in their history.
 *
 * @param actor a name or an email address; cut at 200 characters
 * @returns the result of `work`
 */
export function asActor<T>(actor: string, work: () => PromiseLike<T>): Promise<T> {
  // Awaited inside: Prisma starts a query only when it is awaited.
  return authors.run({ ...present(), actor: storable(actor, MAX_ACTOR_LENGTH) }, async () => await work())
}

/** Runs `work`, and names the source of its changes in the history. Their actor stays the current one. */
export function fromSource<T>(source: ChangeSource, work: () => PromiseLike<T>): Promise<T> {
  return authors.run({ ...present(), source }, async () => await work())
}

/**
 * Runs `work` as one action, or as a part of the one that runs: its changes of rules and overrides share an id, and are
 * reverted together.
 *
 * @param actionId of an action that other work has begun
 */
export function inOneAction<T>(work: (actionId: string) => PromiseLike<T>, actionId?: string): Promise<T> {
  const author = { ...currentAuthor(), ...(actionId !== undefined && { actionId }) }
  return authors.run(author, async () => await work(author.actionId))
}

/**
 * Returns the actor, empty where none was named, the source and the action of the changes that are made now: outside of an
 * action, one of its own for each write.
 */
export function currentAuthor(): Author {
  return { actionId: createActionId(), ...present() }
}

export function createActionId(): string {
  return randomBytes(ACTION_BYTES).toString('base64url')
}

function present() {
  return authors.getStore() ?? UNKNOWN
}

/**
 * Returns a write's `changedBy`: the action's id, characters that make it unique, the source, a colon and the actor. So the
 * triggers can distinguish it from that of an older write.
 */
export function changeToken({ source, actor, actionId } = currentAuthor()): string {
  return `${actionId}${randomBytes(WRITE_BYTES).toString('base64url')}${source}:${actor}`
}
