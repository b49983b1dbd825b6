import type { DashboardReport } from '../analytics/dashboard-report.js'
import { visible } from './format.js'
import { dashboardHref, type FilterName, filterEntries } from './links.js'

const CHIP_TEXTS: Readonly<Record<FilterName, string>> = {
  rule: 'Rule',
  path: 'Path begins with',
  method: 'Method',
  key: 'Client',
}

/** An active filter, with the address of the page without it. */
export interface Chip {
  readonly text: string
  readonly value: string
  readonly href: string
}

/** Returns the filled-in filter form of the dashboard. Fields hold unescaped values: they are sent back unchanged. */
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
