import type { FastifyRequest } from 'fastify'
import type { Clock } from '../src/ground/time/clock.js'
import { type Right, rightsOf } from '../src/staff/shell/roles.js'
import { type FindMember, staffCheck } from '../src/staff/shell/staff-guard.js'
import { knownMember, staffOnly } from '../src/staff/shell/staff-member.js'
import type { AdminOptions } from './options.js'

const UNNAMED = 'staff'

/** Creates the check of the panel, in which everybody has a name. */
export function createPanelCheck(options: AdminOptions, clock: Clock): FindMember {
  const findMember = staffCheck(options, clock, 'adminPlugin')
  return async (request) => {
    const member = await findMember(request)
    if (member === undefined || member.actor !== '') return member
    return { ...member, actor: String((await options.actor?.(request)) || UNNAMED) }
  }
}

/** The user of the panel, as AdminJS knows it. The host's own AdminJS may set the rights, too. */
interface PanelUser {
  readonly email: string
  readonly rateLimitRights: readonly Right[]
}

/**
 * Returns who passed the guard with this request.
 *
 * @throws StaffOnlyError for a stranger
 */
export function panelUser(request: FastifyRequest): PanelUser {
  const member = knownMember(request)
  if (member === undefined) throw staffOnly(request)
  return { email: member.actor, rateLimitRights: rightsOf(member.role) }
}
