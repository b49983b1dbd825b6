/** Who may do what: every action asks, and what is not meant to be done there is refused, by button and by address. */
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

/** An action, as far as it is not AdminJS's own. */
export type PanelAction = Partial<Action<ActionResponse>>

function isSignedIn({ currentAdmin }: ActionContext): boolean {
  return currentAdmin !== undefined
}

/** An action for everybody who is in the panel. */
export function allowed(action: PanelAction = {}): PanelAction {
  return { ...action, isAccessible: isSignedIn }
}

/** An action that there is not. */
const REFUSED: PanelAction = { isAccessible: false, isVisible: false }

/** For tables that only programs write. */
export const READ_ONLY = {
  list: allowed(),
  show: allowed(),
  // Nothing refers to these tables: there is nobody to search.
  search: REFUSED,
  new: REFUSED,
  edit: REFUSED,
  delete: REFUSED,
  bulkDelete: REFUSED,
} as const satisfies Readonly<Record<string, PanelAction>>

/** A form has every field, and would undo what somebody else saved since it was opened. A list has but one. */
async function refuseOutdated(request: ActionRequest, { record }: ActionContext): Promise<ActionRequest> {
  const opened = request.payload?.updatedAt
  const stored: unknown = record?.get('updatedAt')
  if (request.method !== 'post' || opened === undefined || !(stored instanceof Date)) return request
  if (stored.toISOString() === opened) return request
  throw new AppError(OUTDATED, undefined, notice(OUTDATED, 'error'))
}

const OUTDATED = 'Not saved: somebody changed it since you opened it. What you see now is what is stored.'

/** For tables that operators write. */
export const EDITABLE = {
  list: allowed(),
  show: allowed(),
  search: REFUSED,
  new: allowed(),
  edit: allowed({ before: refuseOutdated }),
  delete: allowed(),
} as const satisfies Readonly<Record<string, PanelAction>>

export const PostOnlyError = createError('FST_RATE_LIMIT_POST_ONLY', 'This is done by POST alone.', 405)

/** AdminJS's actions that only read while they are asked for by GET. */
const READS = ['list', 'show', 'edit', 'bulkDelete']

type Actions = NonNullable<ResourceOptions['actions']>

/**
 * Makes every action refuse all methods but POST, and GET where it then only reads: GET is what an image, a link or a frame
 * of any page sends. AdminJS asks by GET for what has no component; components/RateLimitApiClient.js makes that POST.
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

/** What is told above a page, as it is. */
export function notice(text: string, type: 'success' | 'error' | 'info' = 'success') {
  return { message: 'told', type, options: { defaultValue: text } }
}

/** A call of a record action has a record: the controller found it. */
export function recordOf({ record }: ActionContext): BaseRecord {
  if (record === undefined) throw new Error('A record action was called without a record')
  return record
}
