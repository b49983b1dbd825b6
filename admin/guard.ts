import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Internals } from '../src/internals.js'
import { countRefusal } from '../src/sign-in/own-limits.js'
import { fromDatabase, StaffOnlyError } from '../src/sign-in/staff-errors.js'
import { hostStaff } from '../src/sign-in/staff-guard.js'
import type { AdminOptions } from './options.js'

/** Returns the actor of a request; undefined for a client that is not staff. */
export type ReadActor = (request: FastifyRequest) => Promise<string | undefined>

const UNNAMED = 'staff'

export function createActorReader({ staff, isStaff, actor }: AdminOptions, { clock }: Internals): ReadActor {
  if (staff !== undefined) return (request) => fromDatabase(staff.accountFor(request))
  if (isStaff === undefined) return async () => undefined
  const check = hostStaff(isStaff, clock, 'adminPlugin')
  return async (request) => {
    if ((await check(request)) !== true) return undefined
    return String((await actor?.(request)) || UNNAMED)
  }
}

const actors = new WeakMap<FastifyRequest, string>()

/** Returns the actor who passed the guard with this request. */
export function knownActor(request: FastifyRequest): string {
  const actor = actors.get(request)
  if (actor === undefined) throw new StaffOnlyError()
  return actor
}

/**
 * Creates the hook before all routes of the panel, including its scripts. It refuses every request that does not come
 * from staff, whatever its address and its spelling.
 */
export function createGuard(internals: Internals, actorOfRequest: ReadActor) {
  return async function panelGuard(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const actor = await actorOfRequest(request)
    if (actor === undefined) {
      await countRefusal(internals, request, reply)
      throw new StaffOnlyError()
    }
    actors.set(request, actor)
  }
}
