import { countOf } from '../../../ground/number-text.js'
import { MAX_KEY_LENGTH, storable } from '../../../ground/storable.js'
import { UNIT } from '../../../ground/unit.js'
import { monthRange, USAGE_ORDERS, type UsageOrder, type UsagePage, type UsageRow } from '../../../reports/usage.js'
import { formatCount, toMoment, visible } from '../format.js'
import { clientHref, forSpreadsheets } from '../links.js'

const USAGE_PAGE = 'usage.html'
const CLIENT_WINDOW = { days: 30 }
const ORDER_WORDS: Readonly<Record<UsageOrder, string>> = { client: 'Client', day: 'Day', month: 'Month' }

/** What a page of usage is asked for, by its address. */
export interface UsageView {
  /** Empty for the first unit that there is. */
  readonly unit: string
  readonly client: string
  readonly by: UsageOrder
  /** The first and the last month, as typed. */
  readonly since: string
  readonly until: string
  /** Undefined where the months are none. */
  readonly range: { readonly since: number; readonly until: number } | undefined
  /** What is wrong with the months or the unit; empty where nothing is. */
  readonly problem: string
}

export function readUsageView(
  field: (name: string) => string,
  nowMs: number,
): UsageView & { readonly cursor: string | undefined } {
  const text = (name: string) => storable(field(name).trim(), MAX_KEY_LENGTH)
  const present = new Date(nowMs).toISOString().slice(0, 7)
  const [unit, until] = [text('unit'), text('until') || text('since') || present]
  const since = text('since') || until
  const isUnit = unit === '' || UNIT.test(unit)
  const range = isUnit ? monthRange(since, until) : undefined
  return {
    unit,
    client: text('client'),
    by: USAGE_ORDERS.find((each) => each === field('by')) ?? 'client',
    since,
    until,
    range,
    problem:
      range !== undefined
        ? ''
        : isUnit
          ? 'Write months such as 2026-11, the earlier one first.'
          : 'Write a unit such as tokens.',
    cursor: field('cursor') || undefined,
  }
}

export interface UsageShown extends Omit<UsageView, 'range'> {
  /** The units of the last month. */
  readonly units: readonly string[]
  readonly page: UsagePage
  /** The sums of the whole range. */
  readonly months: readonly UsageRow[]
  readonly isFirst: boolean
}

/** Returns the context of `usage.hbs`. */
export function usageContext(
  view: UsageShown,
  server: { readonly keepsUsage: boolean; readonly lost: number; readonly isFailing: boolean },
  nowMs: number,
) {
  const { unit, units, client, by, since, until, page, months, isFirst, problem } = view
  const fields = { unit, since, until, by, client }
  const sum = (of: (row: UsageRow) => number) => formatCount(months.reduce((total, row) => total + of(row), 0))
  const offered = unit === '' || units.includes(unit) ? units : [...units, unit]
  const most = Math.max(1, ...page.rows.map(({ amount }) => amount))
  return {
    title: 'Usage',
    subtitle: 'Rate limits',
    unit: visible(unit),
    units: offered.map((value) => ({ value, selected: value === unit })),
    client,
    since,
    until,
    months: visible(since === until ? since : `${since} to ${until}`),
    orders: USAGE_ORDERS.map((value) => ({ value, text: ORDER_WORDS[value], selected: value === by })),
    order: ORDER_WORDS[by],
    problem,
    rows: page.rows.map((row) => ({
      name: visible(row[by] ?? '') || '(unknown)',
      href: by === 'client' && row.client ? clientHref(row.client, CLIENT_WINDOW) : undefined,
      amount: formatCount(row.amount),
      requests: formatCount(row.requests),
      length: (100 * row.amount) / most,
    })),
    total: sum(({ amount }) => amount),
    requests: sum(({ requests }) => requests),
    csv_href: forSpreadsheets(`usage.csv?${query(fields)}`),
    is_filtered: client !== '',
    clear_href: usageHref({ ...fields, client: '' }),
    first_href: isFirst ? undefined : usageHref(fields),
    next_href: page.cursor === null ? undefined : usageHref({ ...fields, cursor: page.cursor }),
    has_units: units.length > 0,
    off: !server.keepsUsage,
    lost: server.lost > 0 && countOf(server.lost, 'sum of usage was', 'sums of usage were'),
    late: server.isFailing,
    now: toMoment(nowMs),
  }
}

/** Returns the address of the page with these fields. */
export function usageHref(fields: Readonly<Record<string, string>>): string {
  return `${USAGE_PAGE}?${query(fields)}`
}

function query(fields: Readonly<Record<string, string>>): string {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== '')).toString()
}
