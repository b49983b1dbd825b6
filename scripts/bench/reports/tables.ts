import type { Measured } from './run.js'
import type { Timing } from './timing.js'

const TITLES: Readonly<Record<string, string>> = { sqlite: 'SQLite', postgresql: 'PostgreSQL' }

/** Returns the measurements as Markdown tables. */
export function reportTables(measured: readonly Measured[], inserting: Readonly<Record<string, number>>): string[] {
  return [
    '| | Events | Traffic summary | Top offenders | Rule hits | Dashboard | … by plain queries | Times faster |',
    '|---|--:|--:|--:|--:|--:|--:|--:|',
    ...measured.map((measurement) => {
      const { events, reports, plain, pages } = measurement
      const page = pages['no filter']
      const timings = [reports['Traffic summary'], reports['Top offenders'], reports['Rule hits'], page]
      const cells = [...timings, plain.Dashboard].map(cell)
      return row([title(measurement), count(events), ...cells, times(plain.Dashboard, page)])
    }),
    '',
    'The dashboard and its filters, and other reports:',
    '',
    ...filterTable(measured),
    '',
    ...Object.entries(inserting).map(
      ([database, ratio]) =>
        `Writing an event with rollups takes ${ratio.toFixed(2)} times as long as without, on ${TITLES[database]}.`,
    ),
    ...measured.map(
      (measurement) =>
        `Folding an event takes ${measurement.foldUs.toFixed(1)} µs: ${title(measurement)}, ${count(measurement.events)} events.`,
    ),
  ]
}

function filterTable(measured: readonly Measured[]): string[] {
  const filters = Object.keys(measured[0]?.pages ?? {})
  const others = ['Top 1,000 (CSV)', 'One client', 'The busiest client']
  return [
    row(['', 'Events', ...filters, ...others]),
    row(['---', '--:', ...filters.map(() => '--:'), ...others.map(() => '--:')]),
    ...measured.map((measurement) => {
      const { events, pages, reports } = measurement
      return row([
        title(measurement),
        count(events),
        ...filters.map((filter) => cell(pages[filter])),
        ...others.map((name) => cell(reports[name])),
      ])
    }),
  ]
}

function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`
}

function title({ database, distribution }: Measured): string {
  return `${TITLES[database]}${distribution === 'even' ? ', even' : ''}`
}

function count(events: number): string {
  return events.toLocaleString('en-US')
}

/** Returns p50 and p95 in milliseconds. */
function cell(timing: Timing | undefined): string {
  return timing === undefined ? '' : `${milliseconds(timing.p50Ms)} / ${milliseconds(timing.p95Ms)}`
}

function milliseconds(ms: number): string {
  return ms < 10 ? ms.toFixed(1) : Math.round(ms).toLocaleString('en-US')
}

function times(plain: Timing | undefined, page: Timing | undefined): string {
  return plain === undefined || page === undefined ? '' : Math.round(plain.p50Ms / page.p50Ms).toLocaleString('en-US')
}
