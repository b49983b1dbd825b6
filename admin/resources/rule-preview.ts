import type { ActionRequest } from 'adminjs'
import { formatCount, visible } from '../../src/dashboard/format.js'
import { drawPreview } from '../../src/dashboard/preview-chart.js'
import { RuleValidationError } from '../../src/errors.js'
import type { RulePreview } from '../../src/preview/report.js'
import { RULES, type RuleCandidate } from '../../src/rules/rule.js'
import type { PanelAction } from './actions.js'
import type { ResourceDependencies } from './resource.js'

const SHOWN_KEYS = 3

/** Creates the action that previews the rule in the form over the requests of the last day. */
export function previewAction({ limits }: ResourceDependencies): PanelAction {
  async function preview({ payload = {} }: ActionRequest) {
    try {
      const result = await limits.rules.preview(toCandidate(payload), { hours: 24 })
      return { sentences: describe(result), ...(result.matched > 0 && { chart: drawPreview(result) }) }
    } catch (error) {
      if (!(error instanceof RuleValidationError)) throw error
      return { sentences: [], errors: error.errors }
    }
  }
  return { actionType: 'resource', isVisible: false, component: false, handler: preview }
}

function toCandidate(payload: Readonly<Record<string, unknown>>): RuleCandidate {
  const given = Object.entries(RULES.fields).flatMap(([name, { kind }]) => {
    const value = payload[name]
    if (value === undefined) return []
    return [[name, kind === 'integer' ? Number(value) : value]]
  })
  // The preview validates the candidate, whatever its type.
  return Object.fromEntries(given) as RuleCandidate
}

/** Returns the preview of the last 24 hours in sentences, the main one first. */
export function describe(preview: RulePreview): string[] {
  const { sentence, over_limit, newly_refused, uncovered } = preview
  const hits = preview.top_keys.filter((key) => key.over_limit > 0).slice(0, SHOWN_KEYS)
  const mostly = hits.map(({ key, over_limit: times }) => `${visible(key)} (${formatCount(times)})`).join(', ')
  return [
    sentence,
    ...(mostly === '' ? [] : [`Mostly ${mostly}.`]),
    ...(over_limit === 0 ? [] : [`${formatCount(newly_refused)} of the refused ones were allowed at the time.`]),
    ...(uncovered.count > 0 ? [`${formatCount(uncovered.count)} could not be replayed.`] : []),
    ...preview.gaps,
    ...preview.notes,
  ]
}
