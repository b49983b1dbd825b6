/** Actions on the selected rows of a list. */

import { setImmediate } from 'node:timers/promises'
import { type ActionContext, AppError, type BaseRecord, ValidationError } from 'adminjs'
import { countOf } from '../../src/ground/number-text.js'
import { notice, type PanelAction } from './actions.js'

interface Deed {
  /** Returns whether a row needs the change. */
  readonly isDue?: (record: BaseRecord) => boolean
  readonly act: (record: BaseRecord) => Promise<unknown>
  /** Returns the notice for a number of changed rows. */
  readonly describe: (done: number) => string
}

/** The number of rows written at a time: each write waits until it is in force, and these wait together. */
const GROUP_SIZE = 10

/** Writes each row by itself, as every other save, so that each is validated and recorded in the history. */
export async function doForEach(context: ActionContext, { isDue = () => true, act, describe }: Deed) {
  const { records = [], resource, currentAdmin, h } = context
  const refused: string[] = []
  let done = 0
  async function write(record: BaseRecord): Promise<void> {
    const problem = await problemFor(() => act(record))
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
    notice: refused.length === 0 ? notice(describe(done)) : notice([describe(done), ...refused].join(' '), 'error'),
  }
}

/** Deletes rows one by one, in place of AdminJS's own action, which deletes all at once. */
export const BULK_DELETE: PanelAction = {
  component: false,
  guard: 'confirmBulkDelete',
  async handler(_request: unknown, _response: unknown, context: ActionContext) {
    const { resource } = context
    return doForEach(context, {
      act: (record) => resource.delete(record.id(), context),
      describe: (done) => `Deleted ${countOf(done, 'row')}.`,
    })
  },
}

/** @returns the problem with the row */
async function problemFor(act: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await act()
    return undefined
  } catch (error) {
    // The other rows are still written.
    if (error instanceof AppError) return error.message
    if (!(error instanceof ValidationError)) throw error
    return Object.entries(error.propertyErrors)
      .map(([field, { message }]) => `${field} ${message}`)
      .join(' ')
  }
}
