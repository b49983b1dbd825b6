/** The result of an action, which the page that follows shows once. */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { storable } from '../../ground/storable.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { issueFormToken } from './staff-actions.js'
import { createStaffCookie, OWN_FOLDER } from './staff-cookie.js'
import { actorWith } from './staff-member.js'

/** The subject of the notices on top of the dashboard. */
export const DASHBOARD_NOTICE = 'incidents'

export interface Notice {
  readonly succeeded: boolean
  readonly text: string
  /** The fields as they were typed into the form of an action that failed. */
  readonly typed: Readonly<Record<string, string>>
  /** A change of the action, which Undo reverts; undefined where there is nothing to undo. */
  readonly undo?: number | undefined
  /** Whether that change is itself an Undo: reverting it does again what was done. */
  readonly redoes?: boolean
}

/** A notice as the next page has it. */
export interface TakenNotice extends Notice {
  /** The address of the page that shows it, relative to the dashboard. */
  readonly back: string
  /** Identifies what it is about. */
  readonly mark: string
  /** The token of the form of Undo; undefined where there is none for who sees it. */
  readonly token?: string | undefined
}

/** Browsers keep no cookie of more than 4,096 characters. */
const MAX_LENGTH = 3_600
const MAX_TEXT_LENGTH = 400
const MARK_LENGTH = 22
const MARK = /^[\w-]{22}$/
/** A page beside the one that posts, or the dashboard itself. */
const PAGE_ADDRESS = /^(?:\.\/|[a-z][a-z-]{0,40}\.html)(?:\?[\x21-\x7e]{0,2000})?$/
const COOKIE = createStaffCookie({
  name: 'ratelimit_staff_notice',
  value: new RegExp(`[\\w-]{1,${MAX_LENGTH}}`),
  lifeMs: MINUTE_MS,
})

/** Leads to a page about a subject, which shows the notice. */
export function leadOn(
  request: FastifyRequest,
  reply: FastifyReply,
  subject: string,
  back: string,
  notice: Notice,
): FastifyReply {
  return leadBack(request, reply, { ...notice, back, mark: markOf(subject) })
}

/** Leads to the page of a notice, which may be an earlier one's. */
export function leadBack(request: FastifyRequest, reply: FastifyReply, notice: TakenNotice): FastifyReply {
  const text = storable(notice.text, MAX_TEXT_LENGTH)
  const [whole, short] = [notice.typed, {}].map((typed) => encode({ ...notice, text, typed, token: undefined }))
  const value = whole !== undefined && whole.length <= MAX_LENGTH ? whole : short
  reply.header('set-cookie', COOKIE.set(request, OWN_FOLDER, value ?? ''))
  return reply.redirect(notice.back, 303)
}

/** Returns an address and a mark as a form had them from a notice; undefined for what is no page of the dashboard. */
export function readOrigin(back: string, mark: string): Pick<TakenNotice, 'back' | 'mark'> | undefined {
  return PAGE_ADDRESS.test(back) && MARK.test(mark) ? { back, mark } : undefined
}

/** Returns the notice about a subject, if there is one, and makes the browser forget it. */
export function takeNotice(request: FastifyRequest, reply: FastifyReply, subject: string): TakenNotice | undefined {
  const found = COOKIE.read(request)
    .map(decode)
    .find((notice) => notice?.mark === markOf(subject))
  if (found === undefined) return undefined
  reply.header('set-cookie', COOKIE.end(request, OWN_FOLDER))
  const actor = found.undo === undefined ? undefined : actorWith(request, 'writeOverrides')
  return actor === undefined ? found : { ...found, token: issueFormToken(request, reply, actor) }
}

function encode(notice: TakenNotice): string {
  return Buffer.from(JSON.stringify(notice)).toString('base64url')
}

/** Decodes a cookie, which anybody may have written who can write the browser's cookies. */
function decode(value: string): TakenNotice | undefined {
  try {
    const { succeeded, text, typed, undo, redoes, back, mark } = Object(
      JSON.parse(Buffer.from(value, 'base64url').toString()),
    )
    const fields = Object.entries(Object(typed)).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    )
    if (typeof text !== 'string' || typeof back !== 'string' || typeof mark !== 'string') return undefined
    return {
      succeeded: succeeded === true,
      text,
      typed: Object.fromEntries(fields),
      undo: Number.isSafeInteger(undo) ? Number(undo) : undefined,
      redoes: redoes === true,
      back,
      mark,
    }
  } catch {
    return undefined
  }
}

function markOf(subject: string): string {
  return createHash('sha256').update(subject).digest('base64url').slice(0, MARK_LENGTH)
}
