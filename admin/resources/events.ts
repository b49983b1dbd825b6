import type { CountedClient } from '../../src/reports/offender-detail.js'
import { visible } from '../../src/staff/dashboard/format.js'
import { panelLinks, toOverrideClient } from '../../src/staff/dashboard/panel-links.js'
import { beginsWith, isExactly, isLogged } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { READ_ONLY } from './actions.js'
import { createEventReach, DECISIONS } from './event-reach.js'
import { filterBy, filterByText, MOMENT, only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

const LISTED = ['timestamp', 'key', 'ruleName', 'method', 'path', 'allowed', 'count', 'limit']
const SHOWN = [...LISTED, 'ipAddress', 'clientIp', 'userId']

/** Creates the resource for the event log, which is read-only. */
export function events({ client, internals, mounts }: ResourceDependencies): AdminResource {
  const { database, clock, countsByUser, privacy } = internals
  const { provider } = database.dialect
  const isClient = isLogged(privacy)
  const reach = createEventReach(client, clock, isClient)
  const linksTo = (panel: string, event: CountedClient) =>
    panelLinks(panel, event.key, toOverrideClient(event, countsByUser), clock.now())
  const resource = new PanelResource({
    name: 'events',
    model: 'RateLimitEvent',
    provider,
    client,
    always: reach.condition,
    filters: {
      ruleName: isExactly,
      key: isClient,
      path: beginsWith(provider),
      ipAddress: isClient,
    },
    order: [{ timestamp: 'desc' }, { id: 'desc' }],
    shown: ({ key, path, method, ruleName, clientIp, userId }) => ({
      key: visible(String(key)),
      path: visible(String(path)),
      method: visible(String(method)),
      ruleName: visible(String(ruleName)),
      links: {
        offender: offenderHref(mounts.dashboard(), String(key)),
        ...(mounts.panel === undefined ? {} : linksTo(mounts.panel, counted(key, clientIp, userId))),
      },
    }),
  })
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'Activity' },
      titleProperty: 'key',
      listProperties: LISTED,
      filterProperties: ['allowed', 'timestamp', 'ruleName', 'key', 'path', 'ipAddress'],
      showProperties: SHOWN,
      sort: { sortBy: 'timestamp', direction: 'desc' },
      properties: FIELDS,
      actions: {
        ...READ_ONLY,
        list: { ...READ_ONLY.list, component: 'RateLimitList', custom: { note: NOTE }, after: reach.addNote },
      },
      translations: { en: TEXTS },
    },
  }
}

/** Returns the client of a row, whose values have no types. */
function counted(key: unknown, clientIp: unknown, userId: unknown): CountedClient {
  return {
    key: String(key),
    clientIp: typeof clientIp === 'string' ? clientIp : null,
    userId: typeof userId === 'number' ? userId : null,
  }
}

const NOTE = 'The last 24 hours, unless a time is filtered by. Newest first.'

const FIELDS = {
  id: only(),
  timestamp: { components: { ...MOMENT.components, filter: 'RateLimitPeriod' } },
  key: {
    ...filterByText('The whole key, as in the list.'),
    components: { list: 'RateLimitClient', show: 'RateLimitClient', filter: 'RateLimitField' },
  },
  allowed: {
    ...filterBy(DECISIONS.map(({ value, label }) => ({ value, label }))),
    components: { list: 'RateLimitDecision', show: 'RateLimitDecision', filter: 'RateLimitSelect' },
  },
  ruleName: filterByText('The whole name.'),
  path: filterByText('The beginning of the value.'),
  ipAddress: filterByText('The whole address.'),
}

const TEXTS = {
  labels: { events: 'Events' },
  actions: { list: 'Events', show: 'Event' },
  properties: {
    timestamp: 'Time',
    key: 'Client',
    ruleName: 'Rule',
    path: 'Path',
    method: 'Method',
    allowed: 'Decision',
    count: 'Count',
    limit: 'Limit',
    ipAddress: 'Address',
    clientIp: 'Counted by address',
    userId: 'User',
  },
  messages: { noRecordsInResource: 'No events in the last 24 hours.' },
}

/** Returns the address of a client's page on a dashboard; undefined where there is none. */
function offenderHref(dashboard: string | undefined, key: string): string | undefined {
  return dashboard === undefined ? undefined : `${dashboard}offender.html?${new URLSearchParams({ key })}`
}
