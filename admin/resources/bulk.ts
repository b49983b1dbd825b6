/** What is done to the selected rows of a list. */
import { setImmediate } from 'node:timers/promises'
import { type ActionContext, type ActionRequest, AppError, type BaseRecord, ValidationError } from 'adminjs'
import { notice, type PanelAction } from './actions.js'

export interface Deed {
  /** The others are as they should be already. */
  readonly isDue?: (record: BaseRecord) => boolean
  readonly act: (record: BaseRecord) => Promise<unknown>
  /** What is said of so many rows. */
  readonly told: (done: number) => string
}

/** So many rows are written at a time: each write waits until it is in force, and these wait together. */
const GROUP_SIZE = 10

/** Writes each row by itself, as every other save: so that each is checked, and in the history. */
export async function doForEach(context: ActionContext, { isDue = () => true, act, told }: Deed) {
  const { records = [], resource, currentAdmin, h } = context
  const refused: string[] = []
  let done = 0
  async function write(record: BaseRecord): Promise<void> {
    const problem = await problemOf(() => act(record))
    if (problem === undefined) done++
    else refused.push(`${record.title()}: ${problem}`)
  }
  const due = records.filter(isDue)
  for (let start = 0; start < due.length; start += GROUP_SIZE) {
    await Promise.all(due.slice(start, start + GROUP_SIZE).map(write))
    // SQLite's driver is synchronous: without this, requests would wait until the last row is done.
    await setImmediate()
  }
  return {
    records: records.map((record) => record.toJSON(currentAdmin)),
    redirectUrl: h.resourceUrl({ resourceId: resource.id() }),
    notice: refused.length === 0 ? notice(told(done)) : notice([told(done), ...refused].join(' '), 'error'),
  }
}

/** In place of AdminJS's own, which deletes all rows at once. */
export const BULK_DELETE: PanelAction = {
  async handler({ method }: ActionRequest, _response: unknown, context: ActionContext) {
    const { records = [], resource, currentAdmin } = context
    if (method !== 'post') return { records: records.map((record) => record.toJSON(currentAdmin)) }
    return doForEach(context, {
      act: (record) => resource.delete(record.id(), context),
      told: (done) => `Deleted ${done} row(s).`,
    })
  },
}

/** @returns what is wrong with the row */
async function problemOf(act: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await act()
    return undefined
  } catch (error) {
    // The others are done all the same.
    if (error instanceof AppError) return error.message
    if (!(error instanceof ValidationError)) throw error
    return Object.entries(error.propertyErrors)
      .map(([field, { message }]) => `${field} ${message}`)
      .join(' ')
  }
}
