import type { FastifyInstance } from 'fastify'
import type { Internals } from '../../plugin/internals.js'
import type { Report } from '../../reports/report.js'
import type { Pages } from '../shell/pages.js'

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
