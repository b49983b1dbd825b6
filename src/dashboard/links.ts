import type { ReportFilter } from '../analytics/filter.js'

// All links are relative, so that the pages also work behind a proxy that rewrites paths.

/** The parameters of a filter, by the names that `requestedFilter` reads. */
const FILTER_NAMES = ['rule', 'path', 'method', 'key'] as const

export type FilterName = (typeof FILTER_NAMES)[number]

/** Returns the fields of a filter that are set, in the order of the page. */
export function filterEntries(filter: ReportFilter): [name: FilterName, value: string][] {
  return FILTER_NAMES.flatMap((name): [FilterName, string][] => {
    const value = filter[name]
    return value === undefined ? [] : [[name, value]]
  })
}

export function dashboardHref(days: number, filter: ReportFilter): string {
  return `./?${new URLSearchParams([['days', String(days)], ...filterEntries(filter)])}`
}

/** @param filter of the dashboard that the page leads back to */
export function offenderHref(key: string, days: number, filter: ReportFilter): string {
  return `offender.html?${new URLSearchParams(offenderFields(key, filter))}&days=${days}`
}

/** Returns the parameters of a client's page, except its window. */
export function offenderFields(key: string, filter: ReportFilter): [name: string, value: string][] {
  const back = new URLSearchParams(filterEntries(filter)).toString()
  return back === ''
    ? [['key', key]]
    : [
        ['key', key],
        ['back', back],
      ]
}

export function offenderJsonHref(key: string, days: number): string {
  return `offender/?${new URLSearchParams({ key, days: String(days) })}`
}

export function csvHref(days: number): string {
  return `offenders.csv?days=${days}`
}
