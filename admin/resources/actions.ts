/** Access to actions: every action has a check, and unsupported ones are refused, by button and by address. */
import createError from '@fastify/error'
import {
  type Action,
  type ActionContext,
  type ActionRequest,
  type ActionResponse,
  AppError,
  type BaseRecord,
  type ResourceOptions,
} from 'adminjs'
import { visible } from '../../src/ground/visible.js'
import type { Right } from '../../src/staff/shell/roles.js'

/** The part of an action that differs from AdminJS's own. */
export type PanelAction = Partial<Action<ActionResponse>>

/** Returns whether who uses the panel has a right. In the host's own AdminJS everybody has, unless it says otherwise. */
export function hasRight({ currentAdmin }: Pick<ActionContext, 'currentAdmin'>, right: Right): boolean {
  if (currentAdmin === undefined) return false
  const rights: unknown = currentAdmin.rateLimitRights
  return rights === undefined || (Array.isArray(rights) && rights.includes(right))
}

/** Returns an action for those who have a right. */
export function allowed(action: PanelAction = {}, right: Right = 'read'): PanelAction {
  return { ...action, isAccessible: (context: ActionContext) => hasRight(context, right) }
}

/** An action that does not exist. */
const REFUSED: PanelAction = { isAccessible: false, isVisible: false }

/** Replaces characters that are invisible, or turn the text around them: clients choose the texts of these tables. */
export async function showVisibly(answer: ActionResponse): Promise<ActionResponse> {
  for (const { params } of [answer.records ?? [], answer.record ?? []].flat()) {
    for (const [name, value] of Object.entries(params)) if (typeof value === 'string') params[name] = visible(value)
  }
  return answer
}

/** The actions of tables that only programs write, without the list. */
export const READ_ONLY = {
  show: allowed({ after: showVisibly }),
  // The tables have no field that refers to them, so that they need no search.
  search: REFUSED,
  new: REFUSED,
  edit: REFUSED,
  delete: REFUSED,
  bulkDelete: REFUSED,
} as const satisfies Readonly<Record<string, PanelAction>>

/** Refuses an outdated form: it has every field, and would undo another actor's edit since. A list writes one field. */
async function refuseOutdated(request: ActionRequest, { record }: ActionContext): Promise<ActionRequest> {
  const opened = request.payload?.updatedAt
  const stored: unknown = record?.get('updatedAt')
  if (request.method !== 'post' || opened === undefined || !(stored instanceof Date)) return request
  if (stored.toISOString() === opened) return request
  throw new AppError(OUTDATED, undefined, notice(OUTDATED, 'error'))
}

const OUTDATED = 'Not saved: the row was changed after you opened it. The form now shows the stored values.'

/** Returns the actions of a table that is written by those who have a right, without the list. */
export function editableBy(right: Right, fields: readonly string[]) {
  /** Keeps what may be written, with the line feeds of a text, which forms send as CRLF. */
  async function takeFields(request: ActionRequest): Promise<ActionRequest> {
    const accepted = Object.entries(request.payload ?? {}).filter(([name]) => fields.includes(name))
    const written = accepted.map(([name, value]) => [
      name,
      typeof value === 'string' ? value.replaceAll('\r\n', '\n') : value,
    ])
    return { ...request, payload: Object.fromEntries(written) }
  }
  return {
    show: allowed(),
    search: REFUSED,
    new: allowed({ before: takeFields }, right),
    edit: allowed({ before: [refuseOutdated, takeFields] }, right),
    delete: allowed({}, right),
  } as const satisfies Readonly<Record<string, PanelAction>>
}

export const PostOnlyError = createError('FST_RATE_LIMIT_POST_ONLY', 'This action requires POST.', 405)

/** AdminJS's actions that only read when they are requested by GET. */
const READS = ['list', 'show', 'edit']

type Actions = NonNullable<ResourceOptions['actions']>

/**
 * Makes every action refuse all methods except POST, and GET where it only reads, since an image, a link or a frame of
 * any page sends GET. AdminJS requests actions without a component by GET; components/panel.js makes that
 * POST.
 */
export function byPost(actions: Actions = {}): Actions {
  return Object.fromEntries(
    Object.entries(actions).map(([name, action]) => {
      async function refuseOtherMethods(request: ActionRequest): Promise<ActionRequest> {
        const method: string = request.method
        if (method === 'post' || (method === 'get' && READS.includes(name))) return request
        throw new PostOnlyError()
      }
      return [name, { ...action, before: [refuseOtherMethods, ...[action.before ?? []].flat()] }]
    }),
  )
}

/** Returns a notice above a page, with this text. */
export function notice(text: string, type: 'success' | 'error' | 'info' = 'success') {
  return { message: 'rateLimitNotice', type, options: { defaultValue: text } }
}

/** Returns the record of a record action, which the controller has found. */
export function requireRecord({ record }: ActionContext): BaseRecord {
  if (record === undefined) throw new Error('A record action was called without a record')
  return record
}
