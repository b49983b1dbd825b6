import { type ActionContext, type ActionRequest, AppError, type BaseRecord, ValidationError } from 'adminjs'
import { beginsWith, isExactly, isTrue } from '../conditions.js'
import { PanelResource } from '../panel-resource.js'
import { allowed, EDITABLE, notice, type PanelAction } from './actions.js'
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

/** Switches the selected rules one by one, as every other save: so that all are told, and each is in the history. */
function switchAction(name: 'enable' | 'disable', isActive: boolean): PanelAction {
  async function switchRules(_request: ActionRequest, _response: unknown, context: ActionContext) {
    const { records = [], resource, currentAdmin, h } = context
    const refused: string[] = []
    let changed = 0
    for (const record of records.filter((each) => each.get('isActive') !== isActive)) {
      const problem = await saved(record, { isActive }, context)
      if (problem === undefined) changed++
      else refused.push(`${record.title()}: ${problem}`)
    }
    const told = `${isActive ? 'Enabled' : 'Disabled'} ${changed} rule(s).`
    return {
      records: records.map((record) => record.toJSON(currentAdmin)),
      redirectUrl: h.resourceUrl({ resourceId: resource.id() }),
      notice: refused.length === 0 ? notice(told) : notice(`${told} ${refused.join(' ')}`, 'error'),
    }
  }
  return { name, actionType: 'bulk', component: false, icon: isActive ? 'Play' : 'Pause', handler: switchRules }
}

/** @returns what is wrong with the rule */
async function saved(record: BaseRecord, fields: object, context: ActionContext): Promise<string | undefined> {
  try {
    await context.resource.update(String(record.id()), fields, context)
    return undefined
  } catch (error) {
    // The others are switched all the same.
    if (error instanceof AppError) return error.message
    if (!(error instanceof ValidationError)) throw error
    return Object.entries(error.propertyErrors)
      .map(([field, { message }]) => `${field} ${message}`)
      .join(' ')
  }
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
