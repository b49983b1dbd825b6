/** The page of usage, and its CSV. */
import createError from '@fastify/error'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { InvalidSettingError } from '../../../ground/errors.js'
import { type UsagePage, UsageReports } from '../../../reports/usage.js'
import { lastParameter } from '../../shell/request-query.js'
import { fromDatabase } from '../../shell/staff-errors.js'
import { staffRoute } from '../../shell/staff-routes.js'
import type { PageRoutes } from '../page-routes.js'
import { sendCsv, startingWith } from '../send-csv.js'
import { readUsageView, usageContext } from './usage-page.js'

const PAGE_SIZE = 100
const NO_USAGE: UsagePage = { rows: [], cursor: null }
const InvalidUsageError = createError('FST_RATE_LIMIT_INVALID_USAGE', '%s', 400)

export function registerUsageRoutes({ app, pages, database, clock, settings, usage }: PageRoutes<'usage'>): void {
  const { privacy } = settings
  const reports = new UsageReports(database, clock, privacy)
  const readView = (request: FastifyRequest) => readUsageView((name) => lastParameter(request, name), clock.now())

  async function showUsage(request: FastifyRequest, reply: FastifyReply) {
    const { cursor, ...view } = readView(request)
    const units = await fromDatabase(reports.units(view.until))
    const unit = view.unit || units[0] || ''
    const { range, by } = view
    const options = range && unit !== '' ? { ...range, unit, client: view.client || undefined } : undefined
    const [page, months] = await answered(
      Promise.all(
        options === undefined
          ? [NO_USAGE, NO_USAGE]
          : [
              reports.page({ ...options, by, limit: PAGE_SIZE, cursor }),
              reports.page({ ...options, by: 'month', limit: 5_000 }),
            ],
      ),
    )
    const stats = usage?.stats()
    return pages.send(reply, 'usage', {
      page: usageContext(
        { ...view, unit, units, page, months: months.rows, isFirst: cursor === undefined },
        { keepsUsage: usage !== undefined, lost: stats?.dropped ?? 0, isFailing: usage?.isFailing ?? false },
        clock.now(),
      ),
    })
  }

  async function sendUsageCsv(request: FastifyRequest, reply: FastifyReply) {
    const { unit, client, by, range, problem, since, until } = readView(request)
    if (range === undefined || unit === '') throw new InvalidUsageError(problem || 'missing ?unit= parameter')
    const rows = reports.csv({ ...range, unit, client: client || undefined, by })
    // What fails is answered before the file begins.
    const { value: header = '' } = await answered(rows.next())
    const months = since === until ? since : `${since}_${until}`
    return sendCsv(request, reply, `ratelimit_usage_${unit}_${months}.csv`, startingWith(header, rows))
  }

  app.get('/usage.html', staffRoute('usage'), showUsage)
  app.get('/usage.csv', staffRoute('usage-csv'), sendUsageCsv)
}

/** Anybody can make up a cursor, and a range of any length. */
function answered<T>(reading: Promise<T>): Promise<T> {
  const named = reading.catch((error: unknown) => {
    throw error instanceof InvalidSettingError ? new InvalidUsageError(error.message) : error
  })
  return fromDatabase(named)
}
