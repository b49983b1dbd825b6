import { storedSpellings } from '../../src/clients/client-networks.js'
import { OVERRIDES } from '../../src/rules/overrides/override.js'
import { isExactly } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, editableBy } from './actions.js'
import { BULK_DELETE } from './bulk.js'
import { historyAction } from './changes.js'
import { describedFields } from './described.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

/** Creates the resource for the overrides, which operators edit. */
export function overrides({ client, internals }: ResourceDependencies): AdminResource {
  const { edited, listed, sortable, searched, properties, titles } = describedFields(OVERRIDES)
  const filters = { effect: isExactly }
  const resource = new PanelResource({
    name: 'overrides',
    model: 'RateLimitOverride',
    provider: internals.database.dialect.provider,
    client,
    filters,
    searched,
    spelled: { field: 'client', spell: (text) => storedSpellings(text, internals.privacy) },
    order: [{ client: 'asc' }, { pathPattern: 'asc' }],
    sortable: [...sortable, 'updatedAt'],
    description: OVERRIDES,
    editable: edited,
  })
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'UserX' },
      titleProperty: 'client',
      listProperties: listed,
      filterProperties: ['search', ...Object.keys(filters)],
      showProperties: [...edited, 'createdAt', 'updatedAt'],
      editProperties: edited,
      sort: { sortBy: 'client', direction: 'asc' },
      properties,
      actions: {
        ...editableBy('writeOverrides'),
        delete: allowed({ guard: 'confirmDeleteOverride' }, 'writeOverrides'),
        bulkDelete: allowed(BULK_DELETE, 'writeOverrides'),
        history: allowed(historyAction('override', 'client')),
      },
      translations: { en: { ...TEXTS, properties: titles } },
    },
  }
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
  messages: {
    confirmBulkDelete: 'Delete the selected overrides?',
    confirmDeleteOverride: 'Delete this override? Rules and static limits apply to the client again.',
    noRecordsInResource: 'There is no override: rules and static limits apply to every client.',
  },
}
