import type { ActionContext } from 'adminjs'
import { beginsWith } from '../conditions.js'
import type { ModelName } from '../models.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, notice, type PanelAction, READ_ONLY, requireRecord } from './actions.js'
import { filterByText, MOMENT, only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

interface StateTable {
  readonly name: string
  readonly model: ModelName
  readonly label: string
  /** The column of the time at which a row expires; indexed. */
  readonly expiry: string
  readonly listed: readonly string[]
}

const TABLES: readonly StateTable[] = [
  {
    name: 'counters',
    model: 'RateLimitCounter',
    label: 'Fixed windows',
    expiry: 'windowEnd',
    listed: ['key', 'count', 'windowStart', 'windowEnd', 'updatedAt'],
  },
  {
    name: 'sliding-windows',
    model: 'RateLimitSlidingWindow',
    label: 'Sliding windows',
    expiry: 'expiresAt',
    listed: ['key', 'currentCount', 'previousCount', 'limit', 'expiresAt', 'updatedAt'],
  },
  {
    name: 'token-buckets',
    model: 'RateLimitTokenBucket',
    label: 'Token buckets',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'drainLimit', 'expiresAt', 'updatedAt'],
  },
  {
    name: 'leaky-buckets',
    model: 'RateLimitLeakyBucket',
    label: 'Leaky buckets',
    expiry: 'expiresAt',
    listed: ['key', 'used', 'drainLimit', 'expiresAt', 'updatedAt'],
  },
]

/** Creates the resources for the live counters of all algorithms: read-only, except for "Reset". */
export function counters(dependencies: ResourceDependencies): AdminResource[] {
  return TABLES.map((table) => stateTable(table, dependencies))
}

function stateTable(
  { name, model, label, expiry, listed }: StateTable,
  dependencies: ResourceDependencies,
): AdminResource {
  const { client, internals } = dependencies
  const { provider } = internals.database.dialect
  const resource = new PanelResource({
    name,
    model,
    provider,
    client,
    filters: { key: beginsWith(provider) },
    // The order of the index: with a second field the database would sort all rows that expire at the same moment.
    order: [{ [expiry]: 'desc' }],
  })
  const fields = resource.properties().map((property) => property.path())
  return {
    resource,
    options: {
      navigation: { name: 'Counters', icon: 'Database' },
      titleProperty: 'key',
      listProperties: [...listed],
      filterProperties: ['key'],
      showProperties: fields.filter((each) => each !== 'id'),
      sort: { sortBy: expiry, direction: 'desc' },
      properties: {
        ...Object.fromEntries(
          resource.properties().map((each) => [each.path(), each.type() === 'datetime' ? MOMENT : {}]),
        ),
        id: only(),
        key: filterByText('The beginning of the value.'),
      },
      actions: {
        ...READ_ONLY,
        list: { ...READ_ONLY.list, component: 'RateLimitList' },
        reset: allowed(resetAction(dependencies)),
      },
      translations: { en: textsFor(name, label) },
    },
  }
}

function resetAction({ limits }: ResourceDependencies): PanelAction {
  async function reset(_request: unknown, _response: unknown, context: ActionContext) {
    const record = requireRecord(context)
    const id = record.id()
    // Deletes the row too: with a namespace, or cut, its key differs from the key of the checks.
    if ((await context.resource.findOne(id, context)) !== null) await context.resource.delete(id, context)
    await limits.reset(String(record.get('key')))
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
      windows: 'Windows (JSON)',
      used: 'In use',
      drainLimit: 'Limit',
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
