import type { ActionRequest } from 'adminjs'
import { RuleValidationError } from '../../src/ground/errors.js'
import { RULES } from '../../src/rules/rule.js'
import { previewRule, suggestForRule } from '../../src/staff/dashboard/rules/rule-checks.js'
import type { PanelAction } from './actions.js'
import type { ResourceDependencies } from './resource.js'

/** Creates the action that previews the rule in the form over the requests of the last day. */
export function previewAction({ limits }: ResourceDependencies): PanelAction {
  async function preview({ payload = {} }: ActionRequest) {
    try {
      return await previewRule(limits, toValues(payload))
    } catch (error) {
      if (!(error instanceof RuleValidationError)) throw error
      return { sentences: [], errors: error.errors }
    }
  }
  return { actionType: 'resource', isVisible: false, component: false, handler: preview }
}

function toValues(payload: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const given = Object.entries(RULES.fields).flatMap(([name, { kind }]) => {
    const value = payload[name]
    if (value === undefined) return []
    return [[name, kind === 'integer' ? Number(value) : value]]
  })
  return Object.fromEntries(given)
}

/** Creates the action that suggests rates for the rule in the form, from what clients did in the last 7 days. */
export function suggestAction({ limits }: ResourceDependencies): PanelAction {
  const suggest = async ({ payload = {} }: ActionRequest) => suggestForRule(limits, payload)
  return { actionType: 'resource', isVisible: false, component: false, handler: suggest }
}
