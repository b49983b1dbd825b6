/** The filter of the dashboard: its form, what is filtered now, and the rule that would select the same requests. */
import type { DashboardReport } from '../../reports/dashboard-report.js'
import type { ReportFilter } from '../../reports/filter.js'
import type { ReportWindow } from '../../reports/report-window.js'
import { visible, windowFields } from './format.js'
import { dashboardHref, type FilterName, filterEntries, ruleFormHref, type View, viewEntries } from './links.js'

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

/**
 * Returns the filled-in filter form. Fields hold unescaped values: they are sent back unchanged.
 *
 * @param mayMakeRules whether who sees it may make a rule of it
 */
export function filterForm({ by_rule, by_path, by_method }: DashboardReport, view: View, mayMakeRules: boolean) {
  const { window, filter } = view
  const names = ({ shares }: DashboardReport['by_rule']) => shares.map(({ name }) => name).filter((name) => name !== '')
  return {
    ...filter,
    kept: [...windowFields(window), ...viewEntries(view)].map(([name, value]) => ({ name, value })),
    rules: names(by_rule),
    paths: by_path.shares.flatMap(({ name, paths }) => (paths === undefined ? name : names(paths))),
    methods: names(by_method),
    chips: filterEntries(filter).map(([name, value]): Chip => {
      return {
        text: CHIP_TEXTS[name],
        value: visible(value),
        href: dashboardHref(window, { ...filter, [name]: undefined }, view),
      }
    }),
    clear_href: dashboardHref(window, {}, view),
    rule_form: mayMakeRules ? ruleForm(window, filter) : undefined,
  }
}

/** Returns the link to the form of a rule for the filtered requests; undefined where no rule can select them. */
function ruleForm(window: ReportWindow, filter: ReportFilter) {
  const { rule, path, method } = filter
  if (path === undefined && method === undefined && !rule) return undefined
  const requests = [method, path].flatMap((part) => (part === undefined ? [] : [visible(part)])).join(' ')
  return { text: requests === '' ? 'Edit this rule' : `New rule for ${requests}`, href: ruleFormHref(window, filter) }
}
