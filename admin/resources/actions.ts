/** Who may do what: every action asks, and what is not meant to be done there is refused, by button and by address. */
import {
  type Action,
  type ActionContext,
  type ActionRequest,
  type ActionResponse,
  AppError,
  type BaseRecord,
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

/** What is told above a page, as it is. */
export function notice(text: string, type: 'success' | 'error' | 'info' = 'success') {
  return { message: 'told', type, options: { defaultValue: text } }
}

/** A call of a record action has a record: the controller found it. */
export function recordOf({ record }: ActionContext): BaseRecord {
  if (record === undefined) throw new Error('A record action was called without a record')
  return record
}
