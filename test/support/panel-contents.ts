/** Rows for the panel to show and to change. */
import type { TestDatabase } from './databases.js'
import { logEvents } from './events.js'

const KEY = 'ip:203.0.113.99'

/** Two rules, of which the second is off and was changed, an override, a counter and two events. */
export async function fillPanel({ client }: TestDatabase): Promise<void> {
  const rule = { pathPattern: '^/secret', rate: '1/m' }
  await client.rateLimitRule.create({ data: { ...rule, name: 'secret-rule', isActive: true } })
  await client.rateLimitRule.create({ data: { ...rule, name: 'secret-rule-2', isActive: false } })
  await client.rateLimitRule.update({ where: { name: 'secret-rule-2' }, data: { rate: '2/m' } })
  await client.rateLimitOverride.create({ data: { client: KEY, effect: 'deny' } })
  await client.rateLimitCounter.create({
    data: { key: KEY, count: 3, windowStart: new Date(0), windowEnd: new Date(4e12) },
  })
  await logEvents(client, { key: KEY, blocked: 2, atMs: Date.UTC(2026, 0, 15, 11) })
}

/** All that the panel could change. */
export async function panelContents({ client }: TestDatabase): Promise<string> {
  // The requests of strangers are counted and logged as well, for their own keys.
  const where = { key: KEY }
  return JSON.stringify([
    await client.rateLimitRule.findMany({ orderBy: { id: 'asc' } }),
    await client.rateLimitOverride.findMany({ orderBy: { id: 'asc' } }),
    await client.rateLimitChange.findMany({ orderBy: { id: 'asc' } }),
    await client.rateLimitEvent.findMany({ where, orderBy: { id: 'asc' } }),
    await client.rateLimitCounter.findMany({ where }),
  ])
}
