import type { ActionContext } from 'adminjs'
import { RULES } from '../../src/rules/rule.js'
import { beginsWith, isExactly, isTrue } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, EDITABLE, type PanelAction } from './actions.js'
import { BULK_DELETE, doForEach } from './bulk.js'
import { historyAction } from './changes.js'
import { describedFields, heading } from './described.js'
import { only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'
import { previewAction } from './rule-preview.js'

/** Creates the resource for the rules, which operators edit. */
export function rules(dependencies: ResourceDependencies): AdminResource {
  const { client, internals } = dependencies
  const { provider } = internals.database.dialect
  const { edited, listed, sortable, searched, properties, titles, layout } = describedFields(RULES)
  const filters = { isActive: isTrue, algorithm: isExactly, key: beginsWith(provider) }
  const form = { layout: [...layout, heading('Preview'), 'preview'] }
  const resource = new PanelResource({
    name: 'rules',
    model: 'RateLimitRule',
    provider,
    client,
    filters,
    searched,
    order: [{ priority: 'desc' }, { name: 'asc' }],
    sortable,
    editable: edited,
  })
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'Sliders' },
      titleProperty: 'name',
      listProperties: listed,
      filterProperties: ['search', ...Object.keys(filters)],
      showProperties: [...edited, 'createdAt', 'updatedAt'],
      editProperties: [...edited, 'preview'],
      sort: { sortBy: 'priority', direction: 'desc' },
      properties: { ...properties, preview: { ...only('edit'), components: { edit: 'RateLimitPreview' } } },
      actions: {
        ...EDITABLE,
        new: allowed(form),
        edit: { ...EDITABLE.edit, ...form },
        delete: allowed({ guard: 'confirmDeleteRule' }),
        bulkDelete: allowed(BULK_DELETE),
        enable: allowed(switchAction('enable', true)),
        disable: allowed(switchAction('disable', false)),
        history: allowed(historyAction('rule', 'name')),
        preview: allowed(previewAction(dependencies)),
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
      describe: (done) => `${isActive ? 'Enabled' : 'Disabled'} ${done} rule(s).`,
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
    history: 'History',
  },
  messages: {
    confirmDeleteRule: 'Delete this rule? Its clients fall back to the next rule that matches, or to the default.',
    noRecordsInResource: 'There are no rules yet. The static limits apply.',
  },
}
