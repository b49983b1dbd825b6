import Fastify from 'fastify'
import { Registry } from 'prom-client'
import { rateLimitPlugin } from '../../src/index.js'
import { openTestDatabase } from './databases.js'
import { figuresIn } from './exposition.js'

/** Returns the names of the plugin's metrics that an expression of Prometheus has. */
export function metricsIn(expression: string): string[] {
  return expression.match(/\bratelimit_\w+/g) ?? []
}

/** Returns the labels of every series by its name, as an app shows them that uses everything there is to measure. */
export async function exposedMetrics(): Promise<ReadonlyMap<string, ReadonlySet<string>>> {
  const database = await openTestDatabase('sqlite')
  const registry = new Registry()
  const app = Fastify()
  await app.register(rateLimitPlugin, {
    database: database.client,
    logEvents: true,
    useDynamicRules: true,
    metrics: { prometheus: registry },
  })
  app.get('/metrics', { config: { smartRateLimit: false } }, () => registry.metrics())
  await app.inject('/')
  const { payload } = await app.inject('/metrics')
  await app.close()
  await database.close()
  const labels = new Map<string, Set<string>>()
  for (const series of figuresIn(payload).keys()) {
    const [name = '', of = ''] = series.split('{')
    const values = labels.get(name) ?? new Set()
    for (const [, label = ''] of of.matchAll(/(\w+)="/g)) values.add(label)
    labels.set(name, values)
  }
  return labels
}
