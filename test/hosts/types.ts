/** Programs in TypeScript that use the package, checked with the types of all packages (`skipLibCheck: false`). */
import assert from 'node:assert/strict'
import type { Host } from './host.js'

const PROGRAM = `
  import Fastify from 'fastify'
  import rateLimit, { type Decision, parseRate, rateLimitPlugin } from 'fastify-smart-ratelimit'
  import { dashboardPlugin, staffAccounts } from 'fastify-smart-ratelimit/dashboard'

  export async function createApp() {
    const app = Fastify()
    await app.register(rateLimitPlugin, { logEvents: 'blocked', middleware: { key: (request) => request.ip } })
    await app.register(rateLimit, { middleware: { defaultRate: '100/m' } })
    await app.register(dashboardPlugin, { prefix: '/ops', isStaff: (request) => request.headers['x-staff'] === 'yes' })
    const { total }: { total: number } = await app.smartRateLimit.analytics.getTrafficSummary()
    const rules: number = await app.smartRateLimit.client.rateLimitRule.count()
    const limit: Decision['limit'] = parseRate('5/m').limit
    app.get('/free', { config: { smartRateLimit: false } }, async () => total + rules + limit)
    // @ts-expect-error an option that does not exist
    await app.register(rateLimitPlugin, { limitEverything: true })
    return { app, staffAccounts }
  }
`

/** @param modes the options of each way to resolve modules, by its name */
export function typesHost(version: number, modes: Readonly<Record<string, object>>): Host {
  const common = { target: 'es2023', strict: true, skipLibCheck: false, noEmit: true, types: ['node'] }
  const configs = Object.entries(modes).map(([name, options]) => {
    const file = name.endsWith('cjs') ? 'app.cts' : 'app.mts'
    const config = { compilerOptions: { ...common, ...options }, files: [file] }
    return [`${name}.json`, JSON.stringify(config)] as const
  })
  return {
    packages: ['fastify', '@types/node@22', `typescript@${version}`],
    files: { 'app.mts': PROGRAM, 'app.cts': PROGRAM, ...Object.fromEntries(configs) },
    async check({ run }) {
      for (const [config] of configs) {
        const { status, output } = await run('tsc', ['-p', config])
        assert.equal(status, 0, `${config}:\n${output}`)
      }
    },
  }
}
