/** Reports on usage: what clients used of a unit, by client, day or month. */
import type { AddressPrivacy } from '../clients/address-privacy.js'
import { storedSpellings } from '../clients/client-networks.js'
import type { Database } from '../database/database.js'
import { Parameters } from '../database/list.js'
import { InvalidSettingError } from '../ground/errors.js'
import { MAX_KEY_LENGTH, storable } from '../ground/storable.js'
import { type Clock, DAY_MS, latestStartMs } from '../ground/time/clock.js'
import { UNIT, UNIT_ALLOWED } from '../ground/unit.js'
import { bounded, dayOf, USAGE_TABLE } from '../log/usage/usage-table.js'
import { csvRow } from './csv.js'
import { report } from './registration.js'
import { validateAtLeastOne } from './report.js'
import { type TimeOption, toWindow } from './report-window.js'

export const USAGE_ORDERS = ['client', 'day', 'month'] as const
export type UsageOrder = (typeof USAGE_ORDERS)[number]

export interface UsageOptions {
  /** The unit, such as `tokens`. */
  readonly unit: string
  /** Only of this client, in any spelling. */
  readonly client?: string | undefined
  /** The beginning: its UTC day is the first one. The present month begins it unless given. */
  readonly since?: TimeOption | undefined
  /** The end, before which the last UTC day begins; now unless given. Only together with `since`. */
  readonly until?: TimeOption | undefined
  /** What a row is of: a client, those with the highest amount first (the default); or a day or a month, in their order. */
  readonly by?: UsageOrder | undefined
  /** The most rows to return: a whole number, 1 or more; 100 unless given. */
  readonly limit?: number | undefined
  /** The cursor of the page before, whose other options are the same. */
  readonly cursor?: string | undefined
}

/** The usage of a client, a day or a month: the other two fields are absent. */
export interface UsageRow {
  readonly client?: string
  /** In UTC: `2026-11-30`. */
  readonly day?: string
  /** In UTC: `2026-11`. */
  readonly month?: string
  /** It stops at 9007199254740991 (2^53 - 1). */
  readonly amount: number
  /** The requests that charged. One that goes on past midnight counts on each day. */
  readonly requests: number
}

export interface UsagePage {
  readonly rows: readonly UsageRow[]
  /** Leads to the next page; null on the last one. */
  readonly cursor: string | null
}

/** The most days and months that one report adds up. */
const MAX_PERIODS = 4_000
const CSV_PAGE = 1_000
const LATEST_MS = 30 * DAY_MS
const MONTH = /^(?:19[7-9]|[2-9]\d\d)\d-(?:0[1-9]|1[0-2])$/

/** A row of a page, and where the next one begins. */
interface Position {
  readonly name: string
  /** Undefined where rows are in the order of their names. */
  readonly amount?: number | undefined
}

type UsageTables = Pick<Database, 'report' | 'dialect'>

/** Reads usage, as `UsageOptions` describes it. */
export class UsageReports {
  readonly #database: UsageTables
  readonly #clock: Clock
  readonly #privacy: AddressPrivacy | undefined

  constructor(database: { readonly log: UsageTables }, clock: Clock, privacy: AddressPrivacy | undefined) {
    this.#database = database.log
    this.#clock = clock
    this.#privacy = privacy
  }

  /** @throws InvalidSettingError for an invalid option */
  async page(options: UsageOptions): Promise<UsagePage> {
    const { by = 'client', limit = 100, cursor } = options
    if (!USAGE_ORDERS.includes(by)) {
      throw new InvalidSettingError(`Option "by" is ${JSON.stringify(by)}: give ${USAGE_ORDERS.join(', ')}`)
    }
    validateAtLeastOne('limit', limit)
    const after = cursor === undefined ? undefined : parseCursor(by, cursor)
    const rows = await this.#read(options, by, by === 'client', limit + 1, after)
    const shown = rows.slice(0, limit)
    const last = rows.length > limit ? shown.at(-1) : undefined
    return { rows: shown.map((row) => toRow(by, row)), cursor: last === undefined ? null : spellCursor(by, last) }
  }

  /** Yields all rows as CSV, line by line; clients by their names, so that each is there once while amounts grow. */
  async *csv(options: Omit<UsageOptions, 'limit' | 'cursor'>): AsyncGenerator<string, void, undefined> {
    const { by = 'client', unit } = options
    let page = await this.#read(options, by, false, CSV_PAGE)
    yield csvRow([by, 'unit', 'amount', 'requests'])
    for (;;) {
      for (const { name, amount, requests } of page) yield csvRow([name, unit, amount, requests])
      const last = page.at(-1)
      if (last === undefined || page.length < CSV_PAGE) return
      page = await this.#read(options, by, false, CSV_PAGE, { name: last.name })
    }
  }

  /** Returns the units of a month, of which there are few: the index has them side by side. */
  async units(month: string): Promise<string[]> {
    const table = this.#database.dialect.table(USAGE_TABLE)
    const next = (condition: string) =>
      `(SELECT MIN(unit) FROM ${table} WHERE span = 'month' AND period = $1 ${condition})`
    const rows = await this.#database.report((query) =>
      query<{ unit: string }>(
        `WITH RECURSIVE units(unit) AS (
           SELECT ${next('')} UNION ALL SELECT ${next('AND unit > units.unit')} FROM units WHERE unit IS NOT NULL
         ) SELECT unit FROM units WHERE unit IS NOT NULL`,
        [month],
      ),
    )
    return rows.map(({ unit }) => unit)
  }

  /** Returns what a client used in the last days, the latest first, by day and unit; `client` is as the log has it. */
  latestOf(client: string, limit: number): Promise<{ day: string; unit: string; amount: number; requests: number }[]> {
    return this.#database.report((query) =>
      query(
        `SELECT period AS day, unit, ${exactSum('amount')} AS amount, ${exactSum('requests')} AS requests
         FROM ${this.#database.dialect.table(USAGE_TABLE)} WHERE client = $1 AND span = 'day' AND period > $2
         GROUP BY period, unit ORDER BY period DESC, unit LIMIT $3`,
        [client, dayOf(this.#clock.now() - LATEST_MS), limit],
      ),
    )
  }

  /** Returns the policies that a client was charged by in the last days; `client` is as the log has it. */
  policiesOf(client: string): Promise<{ readonly policy: string; readonly unit: string }[]> {
    return this.#database.report((query) =>
      query<{ policy: string; unit: string }>(
        `SELECT DISTINCT policy, unit FROM ${this.#database.dialect.table(USAGE_TABLE)}
         WHERE client = $1 AND span = 'day' AND period > $2 ORDER BY policy`,
        [client, dayOf(this.#clock.now() - LATEST_MS)],
      ),
    )
  }

  async #read(options: UsageOptions, by: UsageOrder, byAmount: boolean, limit: number, after?: Position) {
    const { unit, client } = options
    if (typeof unit !== 'string' || !UNIT.test(unit)) {
      throw new InvalidSettingError(`Option "unit" is ${JSON.stringify(unit)}: give ${UNIT_ALLOWED}`)
    }
    const { dialect } = this.#database
    const { days, months } = periodsFor(options, by === 'day', this.#clock.now())
    const parameters = new Parameters()
    const isMeant = [`unit = ${parameters.add(unit)}`]
    const isOneOf = (column: string, values: readonly string[]) =>
      dialect.isOneOf(column, parameters.add(JSON.stringify(values)), 'text')
    if (client !== undefined) isMeant.push(isOneOf('client', this.#spellings(client)))
    const name = { client: 'client', day: 'period', month: 'substr(period, 1, 7)' }[by]
    if (after !== undefined && !byAmount) isMeant.push(`${name} > ${parameters.add(after.name)}`)
    const rowsOf = (span: string, periods: readonly string[]) =>
      periods.length > 0 &&
      `SELECT ${name} AS name, amount, requests FROM ${dialect.table(USAGE_TABLE)}
       WHERE span = '${span}' AND ${isOneOf('period', periods)} AND ${isMeant.join(' AND ')}`
    const rows = [rowsOf('month', months), rowsOf('day', days)].filter((part) => part !== false)
    const sums = `SELECT name, ${exactSum('amount')} AS total, ${exactSum('requests')} AS requests
      FROM (${rows.join(' UNION ALL ')}) AS charged GROUP BY name`
    const isAfter =
      after?.amount === undefined
        ? 'true'
        : `(total < ${dialect.whole(parameters.add(after.amount))}
           OR total = ${dialect.whole(parameters.add(after.amount))} AND name > ${parameters.add(after.name)})`
    return this.#database.report((query) =>
      query<{ name: string; amount: number; requests: number }>(
        `SELECT name, total AS amount, requests FROM (${sums}) AS sums WHERE ${isAfter}
         ORDER BY ${byAmount ? 'total DESC, ' : ''}name LIMIT ${limit}`,
        parameters.values,
      ),
    )
  }

  /** Returns the spellings under which the table may have a client. */
  #spellings(client: string): string[] {
    const privacy = this.#privacy
    const spelled = storedSpellings(storable(String(client), MAX_KEY_LENGTH), privacy)
    return [...new Set([...spelled, ...(privacy === undefined ? [] : spelled.map(privacy.toLogged))])]
  }
}

export const usageReport = report<UsageOptions, UsagePage>()({
  name: 'getUsage',
  summary: 'List what clients used of a unit',
  limit: 100,
  options: ({ type, moment, spelling, optional }) => ({
    unit: type.String({ pattern: UNIT.source, description: 'The unit, such as tokens.' }),
    client: type.Optional(spelling('Only of this client: ip:203.0.113.7 or user:7.')),
    since: moment('The beginning: its UTC day is the first one. The beginning of the present month by default.'),
    until: moment('The end, before which the last UTC day begins; now by default. Only together with `since`.'),
    by: type.Optional(
      type.Enum(USAGE_ORDERS, {
        default: 'client',
        description: 'What a row is of. Clients with the highest amount are first.',
      }),
    ),
    cursor: optional(2_000, 'The cursor of the page before.'),
  }),
  answer: ({ type, text, counts, orNull, listOf }) => {
    const name = type.Optional(text)
    return {
      rows: listOf({ client: name, day: name, month: name, ...counts('amount', 'requests') }),
      cursor: orNull(text, 'Leads to the next page; null on the last one.'),
    }
  },
  read(options, { query, dialect, nowMs, privacy }) {
    const log: UsageTables = { dialect, report: (work) => work(query) }
    return new UsageReports({ log }, { now: () => nowMs }, privacy).page(options)
  },
})

/**
 * Returns a sum of whole numbers, up to where it stops. Floating-point numbers are exact until there, and PostgreSQL adds
 * them up in half the time: its sum of `bigint` is a decimal.
 */
function exactSum(column: string): string {
  return bounded(`SUM(CAST(${column} AS double precision))`)
}

function toRow(by: UsageOrder, { name, amount, requests }: { name: string; amount: number; requests: number }) {
  return { [by]: name, amount: Number(amount), requests: Number(requests) }
}

/** Returns the whole months and the other days of a range. */
function periodsFor({ since, until }: UsageOptions, byDay: boolean, nowMs: number) {
  const present = monthStart(nowMs, 0)
  const range = toWindow({ since: since ?? (until === undefined ? present : undefined), until }, 1)
  const sinceMs = range.since ?? present
  const untilMs = range.until ?? Math.max(sinceMs + 1, monthStart(latestStartMs(nowMs), 1))
  const days: string[] = []
  const months: string[] = []
  for (let atMs = Math.floor(sinceMs / DAY_MS) * DAY_MS; atMs < untilMs; ) {
    const day = dayOf(atMs)
    const nextMs = monthStart(atMs, 1)
    const isMonth = !byDay && day.endsWith('-01') && nextMs <= untilMs
    if (isMonth) months.push(day.slice(0, 7))
    else days.push(day)
    if (days.length + months.length > MAX_PERIODS) {
      throw new InvalidSettingError(
        `Option "since" is ${dayOf(sinceMs)}: give a range of at most ${MAX_PERIODS} ${byDay ? 'days' : 'months'}`,
      )
    }
    atMs = isMonth ? nextMs : atMs + DAY_MS
  }
  return { days, months }
}

/** Returns the range of months as `2026-11`, both included; undefined for other texts, and where it ends before it begins. */
export function monthRange(
  first: string,
  last = first,
): { readonly since: number; readonly until: number } | undefined {
  if (!MONTH.test(first) || !MONTH.test(last) || last < first) return undefined
  return { since: Date.parse(`${first}-01`), until: monthStart(Date.parse(`${last}-01`), 1) }
}

/** Returns the beginning of the UTC month of a moment, or of one after it. */
export function monthStart(ms: number, after: number): number {
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + after)
}

function spellCursor(by: UsageOrder, { name, amount }: { name: string; amount: number }): string {
  return Buffer.from(JSON.stringify([by, name, Number(amount)])).toString('base64url')
}

/** Anybody can make up a cursor: it only says where a page begins. */
function parseCursor(by: UsageOrder, cursor: string): Position {
  try {
    const [order, name, amount]: unknown[] = JSON.parse(Buffer.from(String(cursor), 'base64url').toString())
    const isName = typeof name === 'string' && storable(name, MAX_KEY_LENGTH) === name
    if (order === by && isName && typeof amount === 'number' && Number.isSafeInteger(amount)) {
      return by === 'client' ? { name, amount } : { name }
    }
  } catch {
    // Another text.
  }
  throw new InvalidSettingError(
    `Option "cursor" is ${JSON.stringify(cursor)}: give the cursor of the page before, with the same options`,
  )
}
