/** The result of an action, which the page that follows shows once. */
import { createHash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { storable } from '../../ground/storable.js'
import { MINUTE_MS } from '../../ground/time/clock.js'
import { createStaffCookie, OWN_FOLDER } from './staff-cookie.js'

export interface Notice {
  readonly succeeded: boolean
  readonly text: string
  /** The fields as they were typed into the form of an action that failed. */
  readonly typed: Readonly<Record<string, string>>
}

/** Browsers keep no cookie of more than 4,096 characters. */
const MAX_LENGTH = 3_600
const MAX_TEXT_LENGTH = 400
const MARK_LENGTH = 22
const COOKIE = createStaffCookie({
  name: 'ratelimit_staff_notice',
  value: new RegExp(`[\\w-]{1,${MAX_LENGTH}}`),
  lifeMs: MINUTE_MS,
})

/** Leaves a notice for the next page about a subject. */
export function leaveNotice(request: FastifyRequest, reply: FastifyReply, subject: string, notice: Notice): void {
  const text = storable(notice.text, MAX_TEXT_LENGTH)
  const [whole, short] = [notice.typed, {}].map((typed) => encode({ ...notice, text, typed, mark: markOf(subject) }))
  const value = whole !== undefined && whole.length <= MAX_LENGTH ? whole : short
  reply.header('set-cookie', COOKIE.set(request, OWN_FOLDER, value ?? ''))
}

/** Returns the notice about a subject, if there is one, and makes the browser forget it. */
export function takeNotice(request: FastifyRequest, reply: FastifyReply, subject: string): Notice | undefined {
  const found = COOKIE.read(request)
    .map(decode)
    .find((notice) => notice?.mark === markOf(subject))
  if (found !== undefined) reply.header('set-cookie', COOKIE.end(request, OWN_FOLDER))
  return found
}

type Encoded = Notice & { readonly mark: string }

function encode(notice: Encoded): string {
  return Buffer.from(JSON.stringify(notice)).toString('base64url')
}

/** Decodes a cookie, which anybody may have written who can write the browser's cookies. */
function decode(value: string): Encoded | undefined {
  try {
    const { succeeded, text, typed, mark } = Object(JSON.parse(Buffer.from(value, 'base64url').toString()))
    const fields = Object.entries(Object(typed)).filter(
      (entry): entry is [string, string] => typeof entry[1] === 'string',
    )
    if (typeof text !== 'string' || typeof mark !== 'string') return undefined
    return { succeeded: succeeded === true, text, typed: Object.fromEntries(fields), mark }
  } catch {
    return undefined
  }
}

function markOf(subject: string): string {
  return createHash('sha256').update(subject).digest('base64url').slice(0, MARK_LENGTH)
}
