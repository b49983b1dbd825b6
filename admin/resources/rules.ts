import type { ActionContext } from 'adminjs'
import { databaseFor } from '../../src/database/database.js'
import { countOf } from '../../src/ground/number-text.js'
import { RULES } from '../../src/rules/rule.js'
import { withListNames } from '../../src/rules/unmet-needs.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, editableBy, type PanelAction } from './actions.js'
import { BULK_DELETE, doForEach } from './bulk.js'
import { describedFields } from './described.js'
import { type Filters, listBy } from './lists.js'
import type { AdminResource, Source } from './resource.js'

const FILTERS: Filters = { name: 'text', pathPattern: 'text', group: 'text', isActive: 'switch', algorithm: 'text' }

/** Creates the resource for the rules, which operators edit. */
export function rules({ client, provider }: Source): AdminResource {
  const { sources } = databaseFor(client)
  const { edited, sortable, options, titles } = describedFields({
    ...RULES,
    fields: withListNames(RULES.fields, sources),
  })
  return {
    resource: new PanelResource({
      name: 'rules',
      model: 'RateLimitRule',
      provider,
      client,
      sortable,
      orderedBy: 'name',
    }),
    options: {
      ...options,
      navigation: { name: null, icon: 'Sliders' },
      titleProperty: 'name',
      filterProperties: Object.keys(FILTERS),
      sort: { sortBy: 'priority', direction: 'desc' },
      actions: {
        ...editableBy('writeRules', edited),
        list: listBy(FILTERS, sortable),
        bulkDelete: allowed(BULK_DELETE, 'writeRules'),
        enable: allowed(switchAction('enable', true), 'switchRules'),
        disable: allowed(switchAction('disable', false), 'switchRules'),
      },
      translations: { en: { ...TEXTS, properties: titles } },
    },
  }
}

function switchAction(name: 'enable' | 'disable', isActive: boolean): PanelAction {
  async function switchRules(_request: unknown, _response: unknown, context: ActionContext) {
    return doForEach(context, {
      isDue: (record) => record.get('isActive') !== isActive,
      act: (record) => context.resource.update(String(record.id()), { isActive }, context),
      describe: (done) => `${isActive ? 'Enabled' : 'Disabled'} ${countOf(done, 'rule')}.`,
    })
  }
  return { name, actionType: 'bulk', component: false, icon: isActive ? 'Play' : 'Pause', handler: switchRules }
}

const TEXTS = {
  labels: { rules: 'Rules' },
  actions: {
    new: 'New rule',
    edit: 'Edit rule',
    list: 'Rules',
    enable: 'Enable selected rules',
    disable: 'Disable selected rules',
    bulkDelete: 'Delete selected rules',
  },
  messages: {
    confirmBulkDelete: 'Delete the selected rules?',
    confirmDelete: 'Delete this rule? Its clients fall back to the next rule that matches, or to the static limits.',
    noRecordsInResource: 'There are no rules yet. The static limits apply.',
  },
}
