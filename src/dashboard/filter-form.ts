import type { DashboardReport } from '../analytics/dashboard-report.js'
import type { ReportFilter } from '../analytics/filter.js'
import { visible } from './format.js'
import { dashboardHref, type FilterName, filterEntries, ruleFormHref, type View, viewEntries } from './links.js'
import { windowField } from './windows.js'

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
 * Returns the filled-in filter form of the dashboard. Fields hold unescaped values: they are sent back unchanged.
 *
 * @param canMakeRules whether there is a panel to make a rule in, for those who may
 */
export function filterForm({ by_rule, by_path, by_method }: DashboardReport, view: View, canMakeRules: boolean) {
  const { days, filter } = view
  const [window, length] = windowField(days)
  const names = ({ shares }: DashboardReport['by_rule']) => shares.map(({ name }) => name).filter((name) => name !== '')
  return {
    ...filter,
    kept: [[window, length], ...viewEntries(view)].map(([name, value]) => ({ name, value })),
    rules: names(by_rule),
    paths: names(by_path),
    methods: names(by_method),
    chips: filterEntries(filter).map(([name, value]): Chip => {
      return {
        text: CHIP_TEXTS[name],
        value: visible(value),
        href: dashboardHref(days, { ...filter, [name]: undefined }, view),
      }
    }),
    clear_href: dashboardHref(days, {}, view),
    rule_form: canMakeRules ? ruleForm(days, filter) : undefined,
  }
}

/** Returns the link to the form of a rule for the filtered requests; undefined where no rule can select them. */
function ruleForm(days: number, filter: ReportFilter) {
  const { rule, path, method } = filter
  if (path === undefined && method === undefined && !rule) return undefined
  const isRuleAlone = path === undefined && method === undefined
  return { text: isRuleAlone ? 'Edit this rule' : 'Make a rule of this filter', href: ruleFormHref(days, filter) }
}
