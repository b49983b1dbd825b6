import type { ConditionSources } from '../../clients/geo.js'
import type { Condition } from './condition.js'

/**
 * Returns why an app cannot decide a condition: it asks for what the settings have not. Undefined where they have it.
 *
 * @param sources undefined where it is not known what the servers have, as in commands
 */
export function unmetNeed(condition: Condition | undefined, sources: ConditionSources | undefined): string | undefined {
  const missing = sources && condition?.geo.find((kind) => sources.geo?.has(kind) !== true)
  if (missing === undefined) return undefined
  return `asks for client.${missing}, and this app has no setting "geo.${missing}": give geo: { ${missing}: './${missing}.mmdb' }, or leave client.${missing} out`
}
