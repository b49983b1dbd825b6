import type { ActionContext } from 'adminjs'
import { beginsWith, isExactly, isTrue } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, EDITABLE, type PanelAction } from './actions.js'
import { BULK_DELETE, doOneByOne } from './bulk.js'
import { historyAction } from './changes.js'
import type { AdminResource, Parts } from './resource.js'
import { EDITED, ruleFields } from './rule-fields.js'
import { previewAction } from './rule-preview.js'

/** The rules, which operators edit. */
export function rules(parts: Parts): AdminResource {
  const { client, internals } = parts
  const { provider } = internals.database.dialect
  const resource = new PanelResource({
    name: 'rules',
    model: 'RateLimitRule',
    provider,
    client,
    filters: {
      isActive: isTrue,
      algorithm: isExactly,
      key: beginsWith(provider),
    },
    searched: ['name', 'pathPattern', 'description'],
    order: [{ priority: 'desc' }, { name: 'asc' }],
    sortable: ['name', 'rate', 'algorithm', 'isActive', 'priority'],
    editable: EDITED,
  })
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'Sliders' },
      titleProperty: 'name',
      listProperties: ['name', 'pathPattern', 'method', 'rate', 'key', 'algorithm', 'isActive', 'priority'],
      filterProperties: ['search', 'isActive', 'algorithm', 'key'],
      showProperties: [...EDITED, 'createdAt', 'updatedAt'],
      editProperties: [...EDITED, 'preview'],
      sort: { sortBy: 'priority', direction: 'desc' },
      properties: ruleFields(),
      actions: {
        ...EDITABLE,
        new: allowed({ layout: FORM }),
        edit: { ...EDITABLE.edit, layout: FORM },
        delete: allowed({ guard: 'confirmDeleteRule' }),
        bulkDelete: allowed(BULK_DELETE),
        enable: allowed(switchAction('enable', true)),
        disable: allowed(switchAction('disable', false)),
        history: allowed(historyAction('rule', 'name')),
        preview: allowed(previewAction(parts)),
      },
      translations: { en: TEXTS },
    },
  }
}

type Layout = NonNullable<PanelAction['layout']>

/** The fields in groups. */
const FORM: Layout = [
  ['@H4', { children: 'Basics' }],
  'name',
  'description',
  ['@H4', { children: 'Target', mt: 'xl' }],
  'pathPattern',
  'method',
  'key',
  ['@H4', { children: 'Limit', mt: 'xl' }],
  'rate',
  'algorithm',
  'priority',
  'block',
  'isActive',
  ['@H4', { children: 'Preview', mt: 'xl' }],
  'preview',
]

function switchAction(name: 'enable' | 'disable', isActive: boolean): PanelAction {
  async function switchRules(_request: unknown, _response: unknown, context: ActionContext) {
    return doOneByOne(context, {
      isDue: (record) => record.get('isActive') !== isActive,
      act: (record) => context.resource.update(String(record.id()), { isActive }, context),
      told: (done) => `${isActive ? 'Enabled' : 'Disabled'} ${done} rule(s).`,
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
  properties: {
    name: 'Name',
    description: 'Description',
    pathPattern: 'Path pattern',
    method: 'Methods',
    key: 'Counted by',
    rate: 'Rate',
    algorithm: 'Algorithm',
    priority: 'Priority',
    block: 'Blocks',
    isActive: 'Active',
    search: 'Search',
    createdAt: 'Created',
    updatedAt: 'Changed',
  },
  messages: {
    confirmDeleteRule: 'Delete this rule? Its clients fall back to the next rule that matches, or to the default.',
    noRecordsInResource: 'There is no rule yet. Until there is one, the static limits hold.',
  },
}
