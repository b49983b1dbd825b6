import { countOf } from '../../src/ground/number-text.js'
import { createRulePreview, findLogGaps } from '../../src/plugin/rule-preview.js'
import type { PreviewHour, PreviewKey, RulePreview } from '../../src/reports/preview/report.js'
import { readSomeEntries } from '../../src/rules/read-entries.js'
import { RULES, type RuleCandidate } from '../../src/rules/rule.js'
import { formatBar, formatCount } from '../../src/staff/dashboard/format.js'
import { type CommandContext, type CommandResult, UsageError } from './support/command.js'
import { commandSettings, type DatabaseOptions, withDatabaseToRead } from './support/open-database.js'
import { createProgress } from './support/progress.js'
import { inputName, readJson } from './support/read-json.js'
import { tableLines } from './support/terminal.js'

interface PreviewOptions extends DatabaseOptions {
  readonly file?: string | undefined
  readonly name?: string | undefined
  readonly rate?: string | undefined
  readonly hours: number
}

/** The defaults of Fastify's router. */
const DEFAULT_ROUTER = {
  caseSensitive: true,
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  useSemicolonDelimiter: false,
}

export async function run(options: PreviewOptions, context: CommandContext): Promise<CommandResult> {
  const { file, name, rate, hours } = options
  if (file === undefined && name === undefined) throw new UsageError('no rule given: give --file or --name')
  const settings = commandSettings(options, context)
  const fromFile = file === undefined ? undefined : await readRule(file, context)
  return withDatabaseToRead(settings, context, async (opened) => {
    async function stored(): Promise<RuleCandidate> {
      const [row] = await readSomeEntries(opened.database, RULES, 'WHERE name = $1', [name ?? ''])
      if (row === undefined)
        throw new Error(`there is no rule ${JSON.stringify(name)}: give the name of one, or --file`)
      return row.entry
    }
    const candidate = fromFile ?? (await stored())
    const replay = createRulePreview(settings, opened, DEFAULT_ROUTER, {
      gaps: () => findLogGaps(settings),
      notes: () => [],
    })
    const progress = createProgress(context.stderr)
    const onProgress = (events: number) => progress.show(`Read ${countOf(events, 'event')} so far`)
    const tried = rate === undefined ? candidate : { ...candidate, rate }
    const result = await replay(tried, { hours, onProgress }).finally(progress.end)
    return { json: result, lines: previewLines(result) }
  })
}

async function readRule(file: string, context: CommandContext): Promise<RuleCandidate> {
  const rule = await readJson(file, context)
  if (typeof rule !== 'object' || rule === null || Array.isArray(rule)) {
    throw new Error(`${inputName(file)} is not a rule: give an object such as { "name": "api", … }`)
  }
  // The preview checks every field.
  return rule as RuleCandidate
}

const BAR_WIDTH = 30

/** Returns the lines that operators read. */
export function previewLines(preview: RulePreview): string[] {
  return [
    `Rule ${JSON.stringify(preview.rule)}, ${minute(preview.since)} to ${minute(preview.until)} UTC, ${countOf(preview.events, 'request')} in the log.`,
    preview.sentence,
    ...comparison(preview),
    ...section('By hour (UTC):', hourLines(preview)),
    ...section('Keys hit most:', keyLines(preview)),
    ...section('Mind:', [...completeness(preview), ...preview.notes.map((note) => `  ${note}`)]),
  ]
}

function comparison({ matched, refused_then, newly_refused, newly_allowed }: RulePreview): string[] {
  if (matched === 0) return []
  return [
    `Actually refused: ${formatCount(refused_then)}. Refused only by this rule: ${formatCount(newly_refused)}; allowed only by this rule: ${formatCount(newly_allowed)}.`,
  ]
}

function completeness({ complete, gaps }: RulePreview): string[] {
  return complete ? [] : ['  The log is not complete:', ...gaps.map((gap) => `    ${gap}`)]
}

/** Returns the lines of the hours; hours without a matched request are left out. */
function hourLines(preview: RulePreview): string[] {
  const hours = preview.by_hour.filter(({ matched }) => matched > 0)
  const most = Math.max(...hours.map(({ over_limit }) => over_limit))
  const bar = ({ over_limit }: PreviewHour) => '#'.repeat(Math.ceil((formatBar(over_limit, most) * BAR_WIDTH) / 100))
  return tableLines(
    ['hour', ...headings(preview), ''],
    hours.map((hour) => [minute(hour.hour), ...counts(hour), bar(hour)]),
  )
}

function keyLines(preview: RulePreview): string[] {
  return tableLines(
    [...headings(preview), 'key'],
    preview.top_keys.map((key) => [...counts(key), key.key]),
  )
}

/** Returns the headings of the counts. A rule with `block: false` refuses nothing. */
function headings({ over_limit, would_refuse }: RulePreview): string[] {
  return ['matched', over_limit > would_refuse ? 'would be refused' : 'refused', 'refused then']
}

function counts({ matched, over_limit, refused_then }: PreviewHour | PreviewKey): string[] {
  return [matched, over_limit, refused_then].map(formatCount)
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', title, ...lines]
}

/** Returns the minute of an ISO time, such as `2026-01-15 12:00`. */
function minute(iso: string): string {
  return iso.slice(0, 16).replace('T', ' ')
}
