import Type from 'typebox'
import { loadAskedReports } from '../../plugin/reports.js'
import type { AskedReport } from '../../reports/registration.js'
import { coverageFor, createReportRunner, type LogSnapshot } from '../../reports/report.js'
import { type ApiContext, type ApiScope, answer, operation } from './api-scope.js'
import { closed } from './entry-schemas.js'
import { Moment, parseBound } from './moments.js'
import { asInput } from './problems.js'
import { FIELDS } from './report-schemas.js'

const windowSchemas = (normalDays: number) => ({
  days: Type.Optional(
    Type.Number({
      exclusiveMinimum: 0,
      maximum: 36_500,
      default: normalDays,
      description: 'The number of days, up to now. Not together with `since`.',
    }),
  ),
  since: Moment('The beginning of the range, such as 2027-01-31T12:00:00Z.'),
  until: Moment('The end of the range, which is not part of it; now by default. Only together with `since`.'),
})
const most = (counted: string, normally: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 1_000, default: normally, description: `The maximum number of ${counted}.` }),
  )

/** The options that are read in one way; the schema of a report says the rest. */
type ReportQuery = Partial<Record<'since' | 'until' | 'cursor', string>>

/** Adds the route of each report, as its registration describes it. */
export async function addReportRoutes(app: ApiScope, { database, clock, settings }: ApiContext): Promise<void> {
  const run = createReportRunner(database, clock, coverageFor(settings.logEvents), settings.privacy)
  for (const report of (await loadAskedReports()).map(toToolReport)) {
    app.get(
      `/reports/${report.path}`,
      operation('events', report.name, 'read', report.summary, {
        querystring: report.query,
        response: { 200: answer('The report.', report.answer) },
      }),
      async ({ query }) => report.read(query, run),
    )
  }
}

/** Returns a report as the API and the command line ask for it: by a path, with options that are texts. */
export function toToolReport(report: AskedReport) {
  const { name, options, window, limit, recent } = report
  const words = name.replace(/^(?:get|list)/, '').replaceAll(/\B[A-Z]/g, '-$&')
  const path = words.toLowerCase()
  const list = name.startsWith('list') ? path.replaceAll('-', '_') : undefined
  const fields = report.answer(FIELDS)
  const others = options?.(FIELDS)
  const query = {
    ...others,
    // A report with words of its own about the range takes no other window.
    ...(window !== undefined && others?.since === undefined && windowSchemas(window)),
    ...(limit !== undefined && { limit: most('rows', limit) }),
    ...(recent !== undefined && { recent: most('events', recent) }),
  }
  return {
    ...report,
    path,
    list,
    query: Type.Unsafe<ReportQuery>(closed(query)),
    answer: Type.Object(list === undefined ? fields : { [list]: FIELDS.listOf(fields), ...FIELDS.coverage }),
    async read({ since, until, ...others }: ReportQuery, run: ReturnType<typeof createReportRunner>): Promise<object> {
      const options = { ...others, since: parseBound(since), until: parseBound(until) }
      const result = await asInput(async () => report.create(options), 'query', 'since')
      const work = async (snapshot: LogSnapshot) =>
        list === undefined ? Object(await result(snapshot)) : { [list]: await result(snapshot), ...snapshot.coverage }
      return asInput(() => run(work), 'query', others.cursor === undefined ? 'since' : 'cursor')
    },
  }
}
