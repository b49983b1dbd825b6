import type { DashboardReport } from '../analytics/dashboard-report.js'
import { visible } from './format.js'
import { dashboardHref, type FilterName, filterEntries } from './links.js'

const CHIP_TEXTS: Readonly<Record<FilterName, string>> = {
  rule: 'Rule',
  path: 'Path begins with',
  method: 'Method',
  key: 'Client',
}

/** A filter that is on, and the page without it. */
export interface Chip {
  readonly text: string
  readonly value: string
  readonly href: string
}

/** The form that filters the dashboard, filled in. Fields hold values as they are: what is sent back has to be the same. */
export function filterForm({ days, filter, by_rule, by_path, by_method }: DashboardReport) {
  const names = ({ shares }: DashboardReport['by_rule']) => shares.map(({ name }) => name).filter((name) => name !== '')
  return {
    ...filter,
    rules: names(by_rule),
    paths: names(by_path),
    methods: names(by_method),
    chips: filterEntries(filter).map(([name, value]): Chip => {
      return {
        text: CHIP_TEXTS[name],
        value: visible(value),
        href: dashboardHref(days, { ...filter, [name]: undefined }),
      }
    }),
    clear_href: dashboardHref(days, {}),
  }
}
