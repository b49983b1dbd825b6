import { errorMessage, InvalidSettingError } from '../../src/ground/errors.js'
import { formatCount } from '../../src/ground/number-text.js'
import { monthRange, type UsageOrder, UsageReports } from '../../src/reports/usage.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { parseRange, type RangeOptions } from './support/option-values.js'
import { printable, tableLines } from './support/terminal.js'

interface UsageCommandOptions extends DatabaseOptions, RangeOptions {
  readonly unit: string
  readonly month?: string | undefined
  readonly client?: string | undefined
  readonly by: UsageOrder
  readonly limit: number
  readonly csv?: true | undefined
}

export async function run(options: UsageCommandOptions, context: CommandContext): Promise<CommandResult> {
  const { unit, client, by, limit, csv } = options
  const { stdout } = context
  const settings = commandSettings(options, context)
  const range = readMonth(options.month) ?? parseRange(options, settings.clock.now())
  return withDatabaseToRead(settings, context, async ({ database }) => {
    const reports = new UsageReports(database, settings.clock, settings.privacy)
    const report = { unit, client, by, ...range }
    try {
      if (csv) {
        for await (const row of reports.csv(report)) stdout.write(stdout.isTTY ? `${printable(row.trimEnd())}\n` : row)
        return { lines: [] }
      }
      const page = await reports.page({ ...report, limit })
      const rows = page.rows.map((row) => [formatCount(row.amount), formatCount(row.requests), row[by] || '(unknown)'])
      return {
        json: page,
        lines:
          rows.length === 0 ? [`No usage of ${unit}.`] : tableLines(['AMOUNT', 'REQUESTS', by.toUpperCase()], rows),
        warnings: page.cursor === null ? [] : [`there are more than ${limit}: give a higher --limit, or --csv`],
      }
    } catch (error) {
      throw error instanceof InvalidSettingError ? new UsageError(errorMessage(error)) : error
    }
  })
}

/** @throws UsageError for a text that is no month */
function readMonth(month: string | undefined) {
  if (month === undefined) return undefined
  const range = monthRange(month)
  if (range === undefined) throw new UsageError(`--month is ${JSON.stringify(month)}: give one such as 2026-11`)
  return range
}
