import { errorMessage } from '../../src/ground/errors.js'
import { loadAskedReports } from '../../src/plugin/reports.js'
import { csvRow } from '../../src/reports/csv.js'
import { createReportRunner } from '../../src/reports/report.js'
import { InvalidInputError } from '../../src/staff/api/problems.js'
import { toToolReport } from '../../src/staff/api/report-routes.js'
import { compileValidator } from '../../src/staff/api/validator.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { printable, tableLines } from './support/terminal.js'

interface ReportOptions extends DatabaseOptions {
  readonly set?: readonly string[] | undefined
  readonly csv?: true | undefined
}

/** Prints a report by the name that it has in the API; a new one is here by its registration. */
export async function run(
  name: string,
  { set = [], csv, ...options }: ReportOptions,
  context: CommandContext,
): Promise<CommandResult> {
  const settings = commandSettings(options, context)
  const reports = (await loadAskedReports()).map(toToolReport)
  const report = reports.find(({ path }) => path === name)
  if (report === undefined) {
    const names = reports.map(({ path }) => path).join(', ')
    throw new UsageError(`there is no report ${JSON.stringify(name)}: give one of ${names}`)
  }
  const { list, columns = [] } = report
  if (csv && columns.length === 0) throw new UsageError(`${name} is no list: leave --csv out`)
  const query = readQuery(report.query, set)
  return withDatabaseToRead(settings, context, async ({ database }) => {
    const run = createReportRunner(database, settings.clock, {}, settings.privacy)
    const json = await report.read(query, run).catch((error: unknown) => {
      throw error instanceof InvalidInputError ? new UsageError(error.message) : error
    })
    if (list === undefined) return { json, lines: JSON.stringify(json, null, 2).split('\n') }
    const rows: Record<string, string | number | null>[] = Reflect.get(json, list)
    const cells = rows.map((row) => columns.map((column) => row[column] ?? ''))
    if (!csv) {
      const texts = cells.map((row) => row.map(String))
      const table = tableLines(
        columns.map((column) => column.toUpperCase()),
        texts,
      )
      return { json, lines: rows.length === 0 ? ['The list is empty.'] : table }
    }
    const { stdout } = context
    for (const row of [columns, ...cells].map(csvRow))
      stdout.write(stdout.isTTY ? `${printable(row.trimEnd())}\n` : row)
    return { lines: [] }
  })
}

/** @throws UsageError for options that are wrong by the schema of the report */
function readQuery(schema: Parameters<typeof compileValidator>[0]['schema'], set: readonly string[]) {
  const texts = set.map((text) => {
    const at = text.indexOf('=')
    if (at < 1) throw new UsageError(`--set is ${JSON.stringify(text)}: give an option and its value, such as days=7`)
    return [text.slice(0, at), text.slice(at + 1)]
  })
  const validate = compileValidator({ schema, method: 'GET', url: '/', httpPart: 'querystring' })
  const { error, value } = Object(validate(Object.fromEntries(texts)))
  if (error) throw new UsageError(errorMessage(error))
  return value
}
