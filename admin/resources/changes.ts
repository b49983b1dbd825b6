import type { ActionContext, ViewHelpers } from 'adminjs'
import { storedSpellings } from '../../src/clients/client-networks.js'
import { errorMessage, RevertError, RuleValidationError } from '../../src/ground/errors.js'
import { CHANGE_SOURCES } from '../../src/rules/history/actor.js'
import { isMoment } from '../../src/rules/history/history.js'
import { visible } from '../../src/staff/dashboard/format.js'
import { type Condition, type FilterValues, isExactly, toFilterText } from '../conditions.js'
import { fromPanel, PanelResource, type Row } from '../panel-resource.js'
import { hasRight, notice, type PanelAction, READ_ONLY, requireRecord } from './actions.js'
import { filterBy, filterByText, MOMENT, only } from './fields.js'
import type { AdminResource, ResourceDependencies } from './resource.js'

/** Creates the resource for the history of rules and overrides, with an action that reverts a change. */
export function changes({ client, internals, limits }: ResourceDependencies): AdminResource {
  /** Returns the condition for the changes of rows that have, or ever had, a name: a renamed row keeps its history. */
  async function conditionForName({ name }: FilterValues): Promise<Condition> {
    const asked = toFilterText(name)
    if (asked === '') return {}
    const named = { name: { in: storedSpellings(asked, internals.privacy) } }
    const rows = await client.rateLimitChange.findMany({
      where: named,
      distinct: ['entity', 'rowId'],
      select: { entity: true, rowId: true },
      orderBy: { id: 'desc' },
      take: NAMESAKES,
    })
    return { OR: [named, ...rows.map(({ entity, rowId }) => ({ entity, rowId }))] }
  }

  const resource = new PanelResource({
    name: 'changes',
    model: 'RateLimitChange',
    provider: internals.database.dialect.provider,
    client,
    filters: { entity: isExactly, actor: isExactly, source: isExactly, action: isExactly },
    always: conditionForName,
    order: [{ id: 'desc' }],
    shown: (row) => ({ difference: toDifference(row) }),
  })
  const seen = ['changedAt', 'actor', 'source', 'entity', 'name', 'action', 'difference']
  return {
    resource,
    options: {
      navigation: { name: null, icon: 'Clock' },
      titleProperty: 'name',
      listProperties: seen,
      filterProperties: ['entity', 'name', 'actor', 'source', 'action'],
      showProperties: seen,
      sort: { sortBy: 'id', direction: 'desc' },
      properties: {
        id: only(),
        changedAt: MOMENT,
        difference: { isSortable: false, isVisible: { list: true, show: true }, components: LINES },
        name: filterByText('A name it has, or ever had.'),
        actor: filterByText('The whole name.'),
        source: filterBy(choices(...CHANGE_SOURCES)),
        entity: filterBy(choices('rule', 'override')),
        action: filterBy(choices('create', 'update', 'delete')),
      },
      actions: { ...READ_ONLY, revert: revertAction(limits.rules.revert) },
      translations: { en: TEXTS },
    },
  }
}

/** The most rows with the same name, one after the other, whose other names are followed. */
const NAMESAKES = 100

const LINES = { list: 'RateLimitLines', show: 'RateLimitLines' }

/** Creates a record action that leads to the changes of its row. */
export function historyAction(entity: 'rule' | 'override', nameField: string): PanelAction {
  async function showHistory(_request: unknown, _response: unknown, context: ActionContext) {
    const record = requireRecord(context)
    const search = new URLSearchParams({ 'filters.entity': entity, 'filters.name': String(record.get(nameField)) })
    return {
      record: record.toJSON(context.currentAdmin),
      redirectUrl: `${listUrlFor(context.h)}?${search}`,
    }
  }
  return { actionType: 'record', icon: 'Clock', component: false, handler: showHistory }
}

function revertAction(revert: (changeId: number) => Promise<void>): PanelAction {
  async function revertOne(_request: unknown, _response: unknown, context: ActionContext) {
    const record = requireRecord(context)
    const outcome = await reverted(() => fromPanel(context, () => revert(Number(record.id()))))
    return {
      record: record.toJSON(context.currentAdmin),
      notice: outcome,
      ...(outcome.type === 'success' ? { redirectUrl: listUrlFor(context.h) } : {}),
    }
  }
  return {
    actionType: 'record',
    icon: 'RotateCcw',
    component: false,
    guard: 'confirmRevert',
    // Without a row, whether there is any that may be reverted.
    isAccessible: (context: ActionContext) =>
      hasRight(context, context.record?.get('entity') === 'rule' ? 'writeRules' : 'writeOverrides'),
    handler: revertOne,
  }
}

async function reverted(revert: () => Promise<void>) {
  try {
    await revert()
    return notice('Reverted.')
  } catch (error) {
    if (!(error instanceof RevertError) && !(error instanceof RuleValidationError)) throw error
    return notice(errorMessage(error), 'error')
  }
}

/** Returns one line for each changed field. */
function toDifference({ entity, before, after }: Row): string {
  const [old, now] = [toFields(before), toFields(after)]
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])]
  const changed = names.filter((name) => old[name] !== now[name])
  const isOverride = entity === 'override'
  return changed
    .map((name) => {
      const shown = isMoment(isOverride ? 'override' : 'rule', name) ? momentText : valueText
      if (after === null) return `${name}: ${shown(old[name])}`
      return before === null ? `${name}: ${shown(now[name])}` : `${name}: ${shown(old[name])} → ${shown(now[name])}`
    })
    .join('\n')
}

function toFields(json: unknown): Readonly<Record<string, unknown>> {
  return typeof json === 'string' ? JSON.parse(json) : {}
}

function valueText(value: unknown): string {
  return value === null || value === undefined || value === '' ? '(none)' : visible(String(value))
}

function momentText(value: unknown): string {
  const moment = new Date(typeof value === 'number' ? value : Number.NaN)
  // Raw SQL may have written an invalid moment.
  return Number.isNaN(moment.getTime()) ? valueText(value) : moment.toISOString()
}

function listUrlFor(h: ViewHelpers): string {
  return h.resourceUrl({ resourceId: 'changes' })
}

function choices(...values: string[]) {
  return values.map((value) => ({ value, label: value }))
}

const TEXTS = {
  labels: { changes: 'History' },
  actions: { list: 'History', show: 'Change', revert: 'Revert' },
  properties: {
    changedAt: 'When',
    actor: 'Who',
    source: 'From',
    entity: 'What',
    name: 'Name',
    action: 'Action',
    difference: 'Difference',
  },
  messages: {
    confirmRevert:
      'Undo this change? What it created is deleted, what it deleted is created again; later changes of other fields stay.',
    noRecordsInResource: 'There are no changes yet.',
  },
}
