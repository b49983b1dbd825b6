import type { FastifyInstance } from 'fastify'
import type { Parts } from '../../plugin/parts.js'
import type { Report } from '../../reports/report.js'
import type { Pages } from '../shell/pages.js'
import { DatabaseUnavailableError } from '../shell/staff-errors.js'
import type { StaffLimits } from '../shell/staff-limits.js'

interface PageScope extends StaffLimits, Pick<Parts, 'settings' | 'database'> {
  /** A scope behind the guard. */
  readonly app: FastifyInstance
  readonly pages: Pages
  /** The dashboard's path, as browsers request it. */
  readonly mount: string
  read<Result>(report: Report<Result>): Promise<Result>
}

/** The dependencies of pages of the dashboard, and the further parts that some need. */
export type PageRoutes<Needs extends keyof Parts = never> = PageScope & Pick<Parts, Needs>

/** Reads a report for a page of rules and settings; undefined while a log with a database of its own is away. */
export async function readUnlessAway<Result>(
  { database, read }: PageRoutes,
  report: Report<Result>,
): Promise<Result | undefined> {
  try {
    return await read(report)
  } catch (error) {
    if (database.log === database || !(error instanceof DatabaseUnavailableError)) throw error
    return undefined
  }
}
