import type { FastifyInstance } from 'fastify'
import type { Internals } from '../../plugin/internals.js'
import type { Report } from '../../reports/report.js'
import type { Pages } from '../shell/pages.js'
import { DatabaseUnavailableError } from '../shell/staff-errors.js'

/** The dependencies of pages of the dashboard. */
export interface PageRoutes {
  /** A scope behind the guard. */
  readonly app: FastifyInstance
  readonly internals: Internals
  readonly pages: Pages
  /** The dashboard's path, as browsers request it. */
  readonly mount: string
  read<Result>(report: Report<Result>): Promise<Result>
}

/** Reads a report for a page of rules and settings; undefined while a log with a database of its own is away. */
export async function readUnlessAway<Result>(
  { internals: { database }, read }: PageRoutes,
  report: Report<Result>,
): Promise<Result | undefined> {
  try {
    return await read(report)
  } catch (error) {
    if (database.log === database || !(error instanceof DatabaseUnavailableError)) throw error
    return undefined
  }
}
