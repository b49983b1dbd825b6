import { isExactly } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, EDITABLE } from './actions.js'
import { BULK_DELETE } from './bulk.js'
import { historyAction } from './changes.js'
import { field, MOMENT, only } from './fields.js'
import type { AdminResource, Parts } from './resource.js'
import { ALGORITHM_OPTIONS } from './rule-fields.js'

const EDITED = ['client', 'effect', 'algorithm', 'pathPattern', 'expiresAt', 'note']

/** The overrides, which operators edit. */
export function overrides({ client, internals }: Parts): AdminResource {
  const resource = new PanelResource({
    name: 'overrides',
    model: 'RateLimitOverride',
    provider: internals.database.dialect.provider,
    client,
    filters: { effect: isExactly },
    searched: ['client', 'pathPattern', 'note'],
    order: [{ client: 'asc' }, { pathPattern: 'asc' }],
    sortable: ['client', 'effect', 'expiresAt', 'updatedAt'],
    editable: EDITED,
  })
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'UserX' },
      titleProperty: 'client',
      listProperties: ['client', 'effect', 'pathPattern', 'expiresAt', 'note'],
      filterProperties: ['search', 'effect'],
      showProperties: [...EDITED, 'createdAt', 'updatedAt'],
      editProperties: EDITED,
      sort: { sortBy: 'client', direction: 'asc' },
      properties: FIELDS,
      actions: {
        ...EDITABLE,
        delete: allowed({ guard: 'confirmDeleteOverride' }),
        bulkDelete: allowed(BULK_DELETE),
        history: allowed(historyAction('override', 'client')),
      },
      translations: { en: TEXTS },
    },
  }
}

const FIELDS = {
  id: only(),
  search: { ...only('filter'), ...field({ kind: 'text', help: 'In client, path pattern and note.' }) },
  client: field({
    kind: 'code',
    help: 'An address, a network or a user: ip:203.0.113.7, ip:10.0.0.0/8, ip:2001:db8::/32, user:42.',
    example: 'ip:203.0.113.7',
  }),
  effect: field({
    kind: 'code',
    help: 'deny refuses, allow lets through without counting, and a rate such as 20/m holds to that.',
    example: 'deny',
  }),
  algorithm: field({
    kind: 'select',
    options: ALGORITHM_OPTIONS,
    initial: 'fixed_window',
    help: 'How a rate is counted.',
  }),
  pathPattern: field({
    kind: 'code',
    help: 'A regular expression (RE2) that is searched for in the path. Empty: every path.',
    example: '^/api/',
    initial: '',
  }),
  expiresAt: {
    ...field({ kind: 'moment', help: 'Until when it holds, in UTC. Empty: for good.' }),
    components: { ...MOMENT.components, edit: 'RateLimitField' },
  },
  note: field({ kind: 'lines', help: 'Why, for whoever finds it later.' }),
  createdAt: { ...only('show'), ...MOMENT },
  updatedAt: { ...only('show'), ...MOMENT },
}

const TEXTS = {
  labels: { overrides: 'Overrides' },
  actions: {
    new: 'New override',
    edit: 'Edit override',
    list: 'Overrides',
    bulkDelete: 'Delete selected overrides',
    history: 'History',
  },
  properties: {
    client: 'Client',
    effect: 'Effect',
    algorithm: 'Algorithm',
    pathPattern: 'Path pattern',
    expiresAt: 'Expires',
    note: 'Note',
    search: 'Search',
    createdAt: 'Created',
    updatedAt: 'Changed',
  },
  messages: {
    confirmDeleteOverride: 'Delete this override? Rules and static limits hold for the client again.',
    noRecordsInResource: 'There is no override: rules and static limits hold for everybody.',
  },
}
