import type { ActionContext } from 'adminjs'
import { isStaffCounter } from '../../src/clients/counter.js'
import { parseWindows, WINDOW_LAYOUTS, type WindowsFunction } from '../../src/limiter/stores/sql/windows-text.js'
import { readBucket, readFixedWindow, readSlidingWindow, type WindowNumbers } from '../../src/limiter/windows.js'
import { beginsWithCounted } from '../conditions.js'
import type { ModelName } from '../models.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, notice, type PanelAction, READ_ONLY, requireRecord } from './actions.js'
import { filterByText, MOMENT, only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

/** Columns that say nothing to an operator: the id, and the bookkeeping of permits. */
const INTERNAL = ['id', 'permits', 'firstMs', 'lastMs', 'granted']

interface StateTable {
  readonly name: string
  readonly model: ModelName
  readonly label: string
  /** The column of the time at which a row expires; indexed. */
  readonly expiry: string
  readonly listed: readonly string[]
  /** The form of several windows, and the words for one of them; absent where there is always one. */
  readonly several?: { readonly form: WindowsFunction; readonly describe: (window: WindowNumbers) => string }
}

const TABLES: readonly StateTable[] = [
  {
    name: 'counters',
    model: 'RateLimitCounter',
    label: 'Fixed windows',
    expiry: 'windowEnd',
    listed: ['key', 'count', 'windowStart', 'windowEnd', 'updatedAt'],
    several: { form: 'rate_limit_fixed_windows', describe: fixedWindowText },
  },
  {
    name: 'sliding-windows',
    model: 'RateLimitSlidingWindow',
    label: 'Sliding windows',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'expiresAt', 'updatedAt'],
    several: { form: 'rate_limit_sliding_windows', describe: slidingWindowText },
  },
  {
    name: 'token-buckets',
    model: 'RateLimitTokenBucket',
    label: 'Token buckets',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'expiresAt', 'updatedAt'],
    several: { form: 'rate_limit_buckets', describe: bucketText },
  },
  {
    name: 'leaky-buckets',
    model: 'RateLimitLeakyBucket',
    label: 'Leaky buckets',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'expiresAt', 'updatedAt'],
    several: { form: 'rate_limit_buckets', describe: bucketText },
  },
  {
    name: 'concurrency',
    model: 'RateLimitConcurrency',
    label: 'Requests in progress',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'expiresAt', 'updatedAt'],
  },
]

function fixedWindowText(window: WindowNumbers): string {
  const { count, startMs, endMs } = readFixedWindow(window)
  return `${count} in ${periodText(endMs - startMs)}`
}

function slidingWindowText(window: WindowNumbers): string {
  const { periodMs, current, previous } = readSlidingWindow(window)
  return `${current} in this window of ${periodText(periodMs)}, ${previous} in the last one`
}

function bucketText(window: WindowNumbers): string {
  const { periodMs, used, drainLimit } = readBucket(window)
  return `${used} of ${drainLimit} in use, ${periodText(periodMs)}`
}

/** Creates the resources for the live counters of all algorithms: read-only, except for "Reset". */
export function counters(dependencies: ResourceDependencies): AdminResource[] {
  return TABLES.map((table) => stateTable(table, dependencies))
}

function stateTable(
  { name, model, label, expiry, listed, several }: StateTable,
  dependencies: ResourceDependencies,
): AdminResource {
  const { client, internals } = dependencies
  const { provider } = internals.database.dialect
  const resource = new PanelResource({
    name,
    model,
    provider,
    client,
    filters: { key: beginsWithCounted(provider, internals.privacy) },
    // The order of the index: with a second field the database would sort all rows that expire at the same moment.
    order: [{ [expiry]: 'desc' }],
    shown({ windows }) {
      if (several === undefined || typeof windows !== 'string') return {}
      const { form, describe } = several
      return { windows: parseWindows(WINDOW_LAYOUTS[form], windows).windows.map(describe).join('\n') }
    },
  })
  const fields = resource
    .properties()
    .map((property) => property.path())
    .filter((each) => !INTERNAL.includes(each))
  return {
    resource,
    options: {
      navigation: { name: 'Counters', icon: 'Database' },
      titleProperty: 'key',
      listProperties: [...listed],
      filterProperties: ['key'],
      showProperties: fields,
      sort: { sortBy: expiry, direction: 'desc' },
      properties: {
        ...Object.fromEntries(
          resource.properties().map((each) => [each.path(), each.type() === 'datetime' ? MOMENT : {}]),
        ),
        id: only(),
        windows: { components: { show: 'RateLimitLines' } },
        key: filterByText('The beginning of the value.'),
      },
      actions: {
        ...READ_ONLY,
        list: { ...READ_ONLY.list, component: 'RateLimitList' },
        reset: allowed(resetAction(dependencies), 'resetCounters'),
      },
      translations: { en: textsFor(name, label) },
    },
  }
}

function resetAction({ limits }: ResourceDependencies): PanelAction {
  async function reset(_request: unknown, _response: unknown, context: ActionContext) {
    const record = requireRecord(context)
    const id = record.id()
    const key = String(record.get('key'))
    if (isStaffCounter(key)) {
      return {
        record: record.toJSON(context.currentAdmin),
        notice: notice('The limits of these pages cannot be reset.', 'error'),
      }
    }
    // Deletes the row too: with a namespace, or cut, its key differs from the key of the checks.
    if ((await context.resource.findOne(id, context)) !== null) await context.resource.delete(id, context)
    await limits.reset(key)
    return {
      record: record.toJSON(context.currentAdmin),
      redirectUrl: context.h.resourceUrl({ resourceId: context.resource.id() }),
      notice: notice('The counter was reset. All servers obey within two seconds.'),
    }
  }
  return { actionType: 'record', icon: 'RotateCcw', component: false, guard: 'confirmReset', handler: reset }
}

function textsFor(name: string, label: string) {
  return {
    labels: { [name]: label },
    actions: { list: label, show: 'Counter', reset: 'Reset' },
    properties: {
      key: 'Counter',
      count: 'Count',
      windowStart: 'Window began',
      windowEnd: 'Window ends',
      currentCount: 'In this window',
      previousCount: 'In the last one',
      limit: 'Limit',
      windows: 'Several windows',
      used: 'In use',
      drainLimit: 'Limit',
      permits: 'Permits (JSON)',
      expiresAt: 'Expires',
      updatedAt: 'Changed',
      createdAt: 'Created',
    },
    messages: {
      confirmReset: 'Reset this counter? The client starts from zero at once.',
      noRecordsInResource: 'There are no counters of this kind at the moment.',
    },
  }
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const

/** Returns a period in the largest unit of which it is a multiple. */
function periodText(ms: number): string {
  const [unitMs, unit] = UNITS.find(([each]) => ms % each === 0) ?? [1, 'ms']
  return `${ms / unitMs} ${unit}`
}
