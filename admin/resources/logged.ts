/** The tables that only programs write: the event log, and the live counters of all algorithms. */
import type { ModelName } from '../models.js'
import { PanelResource } from '../panel-resource.js'
import { READ_ONLY, showVisibly } from './actions.js'
import { type Filters, listBy } from './lists.js'
import type { AdminResource, Source } from './resource.js'

const EVENT_FILTERS: Filters = { allowed: 'switch', timestamp: 'period', key: 'text', ruleName: 'text', path: 'text' }
const EVENT_FIELDS = ['timestamp', 'key', 'ruleName', 'method', 'path', 'allowed', 'count', 'limit']
/** The number of the newest events that are listed and searched: no index helps every filter. */
const NEWEST = 10_000

/** Creates the resource for the newest events, which are read-only. */
export function events({ client, provider }: Source): AdminResource {
  return {
    resource: new PanelResource({
      name: 'events',
      model: 'RateLimitEvent',
      provider,
      client,
      sortable: ['id'],
      exact: ['key', 'ruleName'],
      newest: NEWEST,
    }),
    options: {
      navigation: { name: null, icon: 'Activity' },
      titleProperty: 'key',
      listProperties: EVENT_FIELDS,
      filterProperties: Object.keys(EVENT_FILTERS),
      showProperties: [...EVENT_FIELDS, 'outcome', 'rules', 'ipAddress', 'clientIp', 'userId'],
      actions: { ...READ_ONLY, list: listBy(EVENT_FILTERS, [], showVisibly) },
      translations: {
        en: {
          labels: { events: 'Events' },
          actions: { list: `Events: the newest ${NEWEST.toLocaleString('en')}`, show: 'Event' },
          properties: {
            timestamp: 'Time',
            key: 'Key',
            ruleName: 'Rule',
            allowed: 'Allowed',
            outcome: 'Outcome',
            rules: 'Rules',
            ipAddress: 'Address',
            clientIp: 'Counted by address',
            userId: 'User',
          },
          messages: { noRecordsInResource: 'There are no events.' },
        },
      },
    },
  }
}

const TABLES: readonly { name: string; model: ModelName; label: string; expiry: string; used: string }[] = [
  { name: 'counters', model: 'RateLimitCounter', label: 'Fixed windows', expiry: 'windowEnd', used: 'count' },
  {
    name: 'sliding-windows',
    model: 'RateLimitSlidingWindow',
    label: 'Sliding windows',
    expiry: 'expiresAt',
    used: 'used',
  },
  { name: 'token-buckets', model: 'RateLimitTokenBucket', label: 'Token buckets', expiry: 'expiresAt', used: 'used' },
  { name: 'leaky-buckets', model: 'RateLimitLeakyBucket', label: 'Leaky buckets', expiry: 'expiresAt', used: 'used' },
  { name: 'concurrency', model: 'RateLimitConcurrency', label: 'In progress', expiry: 'expiresAt', used: 'used' },
]

/** Creates the resources for the live counters, which are read-only: a page of the dashboard resets them. */
export function counters({ client, provider }: Source): AdminResource[] {
  return TABLES.map(({ name, model, label, expiry, used }) => ({
    resource: new PanelResource({ name, model, provider, client, sortable: [expiry], exact: ['key'] }),
    options: {
      navigation: { name: 'Counters', icon: 'Database' },
      titleProperty: 'key',
      listProperties: ['key', used, expiry, 'updatedAt'],
      filterProperties: ['key'],
      sort: { sortBy: expiry, direction: 'desc' },
      actions: { ...READ_ONLY, show: READ_ONLY.edit, list: listBy({ key: 'text' }, [expiry], showVisibly) },
      translations: {
        en: {
          labels: { [name]: label },
          actions: { list: label },
          properties: {
            key: 'Counter (the whole key)',
            count: 'Count',
            used: 'In use',
            windowEnd: 'Window ends',
            expiresAt: 'Expires',
            updatedAt: 'Changed',
          },
          messages: { noRecordsInResource: 'There are no counters of this kind at the moment.' },
        },
      },
    },
  }))
}
