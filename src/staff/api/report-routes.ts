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
  const read = createReportRunner(database, clock, coverageFor(settings.logEvents), settings.privacy)
  for (const report of await loadAskedReports()) {
    const path = pathOf(report)
    const list = report.name.startsWith('list') ? path.replaceAll('-', '_') : undefined
    const fields = report.answer(FIELDS)
    const schema = list === undefined ? fields : { [list]: FIELDS.listOf(fields), ...FIELDS.coverage }
    app.get(
      `/reports/${path}`,
      operation('events', report.name, 'read', report.summary, {
        querystring: Type.Unsafe<ReportQuery>(closed(querySchemas(report))),
        response: { 200: answer('The report.', Type.Object(schema)) },
      }),
      async ({ query: { since, until, ...others } }) => {
        const options = { ...others, since: parseBound(since), until: parseBound(until) }
        const result = await asInput(async () => report.create(options), 'query', 'since')
        const work = async (snapshot: LogSnapshot) =>
          list === undefined ? result(snapshot) : { [list]: await result(snapshot), ...snapshot.coverage }
        return asInput(() => read(work), 'query', others.cursor === undefined ? 'since' : 'cursor')
      },
    )
  }
}

function querySchemas({ options, window, limit, recent }: AskedReport) {
  const others = options?.(FIELDS)
  return {
    ...others,
    // A report with words of its own about the range takes no other window.
    ...(window !== undefined && others?.since === undefined && windowSchemas(window)),
    ...(limit !== undefined && { limit: most('rows', limit) }),
    ...(recent !== undefined && { recent: most('events', recent) }),
  }
}

/** Returns the path of a report: `rule-hits` of `listRuleHits`. */
function pathOf({ name }: AskedReport): string {
  return name
    .replace(/^(?:get|list)/, '')
    .replaceAll(/\B[A-Z]/g, '-$&')
    .toLowerCase()
}
