import type { FastifyInstance } from 'fastify'
import { type Internals, nearestMount } from '../internals.js'
import { fromDatabase } from '../sign-in/staff-errors.js'
import { ruleHref } from './panel-links.js'

/** The editors of rules in the panel, by the names of the rules; other policies have none, nor has an app without a panel. */
export type RuleEditors = ReadonlyMap<string, string>

/** Returns them for staff; those who may not write rules have pages that show them. */
export type RuleEditorsFor = (mayEdit: boolean) => RuleEditors

/**
 * Creates the function that finds the editors of policies.
 *
 * @param mount the dashboard's path
 */
export function createRuleEditors(app: FastifyInstance, { places }: Internals, mount: string) {
  const { rateLimitRule } = app.smartRateLimit.client
  return async function findEditors(policies: readonly string[]): Promise<RuleEditorsFor> {
    const panel = nearestMount(places.panels, mount)
    if (panel === undefined || policies.length === 0) return () => new Map()
    const rules = rateLimitRule.findMany({ where: { name: { in: [...policies] } }, select: { id: true, name: true } })
    const found = await fromDatabase(rules)
    return (mayEdit) => new Map(found.map(({ id, name }) => [name, ruleHref(panel, id, mayEdit)]))
  }
}
