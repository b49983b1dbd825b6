import { OVERRIDES } from '../../src/rules/overrides/override.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, editableBy } from './actions.js'
import { BULK_DELETE } from './bulk.js'
import { describedFields } from './described.js'
import { type Filters, listBy } from './lists.js'
import type { AdminResource, Source } from './resource.js'

const FILTERS: Filters = { client: 'text', effect: 'text' }

/** Creates the resource for the overrides, which operators edit. */
export function overrides({ client, provider }: Source): AdminResource {
  const { edited, sortable, options, titles } = describedFields(OVERRIDES)
  return {
    resource: new PanelResource({ name: 'overrides', model: 'RateLimitOverride', provider, client, sortable }),
    options: {
      ...options,
      navigation: { name: null, icon: 'UserX' },
      titleProperty: 'client',
      filterProperties: Object.keys(FILTERS),
      sort: { sortBy: 'client', direction: 'asc' },
      actions: {
        ...editableBy('writeOverrides', edited),
        list: listBy(FILTERS, sortable),
        bulkDelete: allowed(BULK_DELETE, 'writeOverrides'),
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
  },
  messages: {
    confirmBulkDelete: 'Delete the selected overrides?',
    confirmDelete: 'Delete this override? Rules and static limits apply to the client again.',
    noRecordsInResource: 'There is no override: rules and static limits apply to every client.',
  },
}
