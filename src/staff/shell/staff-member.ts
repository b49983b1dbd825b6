import type { FastifyRequest } from 'fastify'
import { mayDo, type Right, requireRight, STAFF_ROLES, type StaffRole, toRole } from './roles.js'
import { ActionDeniedError, StaffOnlyError } from './staff-errors.js'

/** A member of staff. */
export interface StaffMember {
  /** A name or an email address, which the history of rules and overrides records: 1 to 200 characters. */
  readonly actor: string
  readonly role: StaffRole
}

/** The answer of a host's check about a request of staff: who it is, its role, or `true` for an admin. */
export type StaffAnswer = boolean | StaffRole | StaffMember | null | undefined

const MAX_ACTOR_LENGTH = 200

/**
 * Reads what a host's check answered.
 *
 * @returns the member, with an empty actor where none is named; undefined for a stranger
 * @throws TypeError for another text or object, so that a typing error in a role is logged
 */
export function toStaffMember(answer: unknown): StaffMember | undefined {
  if (answer === true) return { actor: '', role: 'admin' }
  if (typeof answer === 'string' && toRole(answer) === undefined) {
    throw new TypeError(`It returned ${JSON.stringify(answer)}, which is not a role: return ${STAFF_ROLES.join(', ')}`)
  }
  const answeredRole = toRole(answer)
  if (answeredRole !== undefined) return { actor: '', role: answeredRole }
  if (typeof answer !== 'object' || answer === null) return undefined
  const { actor, role }: { actor?: unknown; role?: unknown } = answer
  const memberRole = toRole(role)
  const isNamed = typeof actor === 'string' && actor.trim() !== '' && actor.length <= MAX_ACTOR_LENGTH
  if (isNamed && memberRole !== undefined) return { actor, role: memberRole }
  throw new TypeError(
    `It returned ${JSON.stringify({ actor, role })}: return true, a role, or an actor of 1 to ${MAX_ACTOR_LENGTH} characters with the role ${STAFF_ROLES.join(', ')}`,
  )
}

const members = new WeakMap<FastifyRequest, StaffMember>()

/** Keeps who passed the guard with a request. */
export function noteMember(request: FastifyRequest, member: StaffMember): void {
  members.set(request, member)
}

const reasons = new WeakMap<FastifyRequest, string>()

/** Keeps why a request comes from no staff. */
export function noteStranger(request: FastifyRequest, reason: string): void {
  reasons.set(request, reason)
}

/** Returns the refusal of a stranger, which outside of production says why and where to read. */
export function staffOnly(request: FastifyRequest): Error {
  const reason = process.env.NODE_ENV === 'production' ? undefined : reasons.get(request)
  return new StaffOnlyError(
    reason === undefined ? '' : ` ${reason}. See "In your own app" in the README of fastify-smart-ratelimit.`,
  )
}

/** Keeps who passed the guard with a request for a copy of it. */
export function keepMember(request: FastifyRequest, copy: FastifyRequest): void {
  const member = members.get(request)
  if (member !== undefined) members.set(copy, member)
}

/** Returns who passed the guard with a request; undefined for a stranger. */
export function knownMember(request: FastifyRequest): StaffMember | undefined {
  return members.get(request)
}

/** Returns whether who sent a request has a right. */
export function may(request: FastifyRequest, right: Right): boolean {
  const member = knownMember(request)
  return member !== undefined && mayDo(member.role, right)
}

/** @throws StaffOnlyError for a stranger, ActionDeniedError for staff without the right */
export function requireMay(request: FastifyRequest, right: Right): void {
  const member = knownMember(request)
  if (member === undefined) throw staffOnly(request)
  requireRight(member.role, right)
}

/** Returns the name under which a request may do what takes a right; undefined where it may not, or has no name. */
export function actorWith(request: FastifyRequest, right: Right): string | undefined {
  return may(request, right) ? knownMember(request)?.actor || undefined : undefined
}

/** Returns whether only a name is missing for what takes a right: pages then say so where they would have a form. */
export function isUnnamed(request: FastifyRequest, right: Right): boolean {
  return may(request, right) && actorWith(request, right) === undefined
}

/**
 * Returns the name under which a request does what takes a right.
 *
 * @throws StaffOnlyError for a stranger, ActionDeniedError for staff without the right, or without a name
 */
export function requireActor(request: FastifyRequest, right: Right): string {
  requireMay(request, right)
  const actor = actorWith(request, right)
  if (actor !== undefined) return actor
  throw new ActionDeniedError('Actions are recorded with a name: isStaff must return { actor, role } instead of true.')
}
