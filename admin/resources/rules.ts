import type { ActionContext } from 'adminjs'
import { RULES } from '../../src/rules/rule.js'
import { beginsWith, isExactly, isTrue } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, editableBy, type PanelAction } from './actions.js'
import { BULK_DELETE, doForEach } from './bulk.js'
import { historyAction } from './changes.js'
import { describedFields, heading } from './described.js'
import { only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'
import { previewAction, suggestAction } from './rule-preview.js'

/** Creates the resource for the rules, which operators edit. */
export function rules(dependencies: ResourceDependencies): AdminResource {
  const { client, internals } = dependencies
  const { provider } = internals.database.dialect
  const { edited, listed, sortable, searched, properties, titles, layout, groups } = describedFields(RULES)
  const filters = { isActive: isTrue, algorithm: isExactly, key: beginsWith(provider) }
  const form = {
    layout: [...layout, heading('Preview'), 'preview'],
    custom: { groups: [...groups, { title: 'Preview', fields: ['preview'] }] },
  }
  const editable = editableBy('writeRules')
  const resource = new PanelResource({
    name: 'rules',
    model: 'RateLimitRule',
    provider,
    client,
    filters,
    searched,
    order: [{ priority: 'desc' }, { name: 'asc' }],
    sortable,
    description: RULES,
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
        ...editable,
        new: allowed(form, 'writeRules'),
        edit: { ...editable.edit, ...form },
        delete: allowed({ guard: 'confirmDeleteRule' }, 'writeRules'),
        bulkDelete: allowed(BULK_DELETE, 'writeRules'),
        enable: allowed(switchAction('enable', true), 'switchRules'),
        disable: allowed(switchAction('disable', false), 'switchRules'),
        history: allowed(historyAction('rule', 'name')),
        preview: allowed(previewAction(dependencies)),
        suggest: allowed(suggestAction(dependencies)),
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
    confirmBulkDelete: 'Delete the selected rules?',
    confirmDeleteRule:
      'Delete this rule? Its clients fall back to the next rule that matches, or to the static limits.',
    noRecordsInResource: 'There are no rules yet. The static limits apply.',
  },
}
