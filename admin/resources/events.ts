import { type LoggedClients, presentClients } from '../../src/reports/logged-clients.js'
import type { CountedClient } from '../../src/reports/offender-detail.js'
import { createReportRunner } from '../../src/reports/report.js'
import { visible } from '../../src/staff/dashboard/format.js'
import { panelLinks, toOverrideClient } from '../../src/staff/dashboard/panel-links.js'
import { beginsWith, type Condition, isExactly, isLogged } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { READ_ONLY } from './actions.js'
import { type ClientConditions, createEventReach, DECISIONS } from './event-reach.js'
import { filterBy, filterByText, MOMENT, only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

const LISTED = ['timestamp', 'key', 'ruleName', 'method', 'path', 'allowed', 'count', 'limit']
const SHOWN = [...LISTED, 'ipAddress', 'clientIp', 'userId']

/** Creates the resource for the event log, which is read-only. */
export function events({ client, internals, mounts }: ResourceDependencies): AdminResource {
  const { database, clock, countsByUser, privacy } = internals
  const { provider } = database.dialect
  const isClient = isLogged(privacy)
  const read = createReportRunner(database, clock, false, privacy)
  const reach = createEventReach(client, clock, async (text) => toConditions(await read(presentClients(text))))
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

const NONE: Condition = { id: { in: [] } }

/** Returns the conditions of the events of some clients. */
function toConditions(found: LoggedClients | undefined): ClientConditions {
  // The log cannot tell such a client, or has it under too many keys.
  if (found?.keys === undefined) return { condition: NONE, keys: [], hasTooMany: found !== undefined }
  const { key, clients, ranges, keys } = found
  if (keys.length > MAX_KEYS) return { condition: NONE, keys: [], hasTooMany: true }
  const [first, ...others] = keys
  const isOfKeys = others.length === 0 ? { key: first ?? key } : { key: { in: keys } }
  if (clients === undefined) return { condition: isOfKeys, keys, hasTooMany: false }
  // A header may have spelled the key of another client. The rows of other writers name none.
  const isNamed = ranges === undefined ? { client: { in: clients } } : { client: { startsWith: 'ip:' } }
  return { condition: { AND: [isOfKeys, { OR: [isNamed, { client: '' }, { key }] }] }, keys, hasTooMany: false }
}

/** Returns the client of a row, whose values have no types. */
function counted(key: unknown, clientIp: unknown, userId: unknown): CountedClient {
  return {
    key: String(key),
    clientIp: typeof clientIp === 'string' ? clientIp : null,
    userId: typeof userId === 'number' ? userId : null,
  }
}

/** SQLite takes a thousand values in a statement. */
const MAX_KEYS = 500

const NOTE = 'The last 24 hours, unless a time is filtered by. Newest first.'

const FIELDS = {
  id: only(),
  timestamp: { components: { ...MOMENT.components, filter: 'RateLimitPeriod' } },
  key: {
    ...filterByText('An address, a network, a user’s id, or the key as in the list.'),
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
