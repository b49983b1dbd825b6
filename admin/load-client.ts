import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Parts } from '../src/plugin/parts.js'

/** The longest wait for the database, in milliseconds. */
const TIMEOUT_MS = 1_000

/**
 * Loads Prisma before the server answers. The first write in the panel would otherwise keep all requests waiting for it,
 * half a second on a slow machine.
 */
export function loadClientAtStart(
  app: FastifyInstance,
  { database, settings }: Pick<Parts, 'database' | 'settings'>,
): void {
  if (!settings.useDynamicRules) return
  app.addHook('onReady', async () => {
    const answer = database.query('SELECT 1').then(
      () => true,
      () => false,
    )
    // Prisma, which cannot give up a query, is asked only when the database answers.
    if (!(await Promise.race([answer, delay(TIMEOUT_MS, false, { ref: false })]))) return
    await app.smartRateLimit.client.rateLimitRule.findUnique({ where: { id: 0 } }).catch(() => undefined)
  })
}
