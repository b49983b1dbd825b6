import { formatBar, formatCount, formatRate } from '../../../src/dashboard/format.js'
import type { PreviewHour, PreviewKey, RulePreview } from '../../../src/preview/report.js'
import { tableLines } from './table-lines.js'

const BAR_WIDTH = 30
const COUNTS = ['matched', 'over limit', 'refused then']

/** Returns the lines that operators read. */
export function previewLines(preview: RulePreview): string[] {
  return [
    `Rule ${JSON.stringify(preview.rule)}, ${minute(preview.since)} to ${minute(preview.until)} UTC, ${formatCount(preview.events)} request(s) in the log.`,
    preview.sentence,
    ...comparison(preview),
    ...section('By hour (UTC):', hourLines(preview)),
    ...section('Keys hit most:', keyLines(preview)),
    ...section('Mind:', [...completeness(preview), ...preview.notes.map((note) => `  ${note}`)]),
  ]
}

function comparison({ matched, refused_then, newly_refused, newly_allowed, uncovered }: RulePreview): string[] {
  if (matched === 0) return []
  return [
    ...(uncovered.count === 0 ? [] : [`${formatRate(uncovered.share)} of them could not be replayed.`]),
    `Actually refused: ${formatCount(refused_then)}. Refused only by this rule: ${formatCount(newly_refused)}; let through only by this rule: ${formatCount(newly_allowed)}.`,
  ]
}

function completeness({ complete, gaps }: RulePreview): string[] {
  return complete ? [] : ['  The log is not complete:', ...gaps.map((gap) => `    ${gap}`)]
}

/** Returns the lines of the hours; hours without a matched request are left out. */
function hourLines({ by_hour }: RulePreview): string[] {
  const hours = by_hour.filter(({ matched }) => matched > 0)
  const most = Math.max(...hours.map(({ over_limit }) => over_limit))
  const bar = ({ over_limit }: PreviewHour) => '#'.repeat(Math.ceil((formatBar(over_limit, most) * BAR_WIDTH) / 100))
  return tableLines(
    ['hour', ...COUNTS, ''],
    hours.map((hour) => [minute(hour.hour), ...counts(hour), bar(hour)]),
  )
}

function keyLines({ top_keys }: RulePreview): string[] {
  return tableLines(
    [...COUNTS, 'key'],
    top_keys.map((its) => [...counts(its), its.key]),
  )
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
