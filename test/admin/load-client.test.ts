/** The panel loads what its writes need before the server answers, not with the first write; nothing else needs it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FastifyInstance } from 'fastify'
import { adminPlugin } from '../../admin/index.js'
import { apiPlugin } from '../../src/api.js'
import { dashboardPlugin } from '../../src/dashboard.js'
import { startApp } from '../support/build-app.js'
import { countStatements } from '../support/count-statements.js'
import { forAnyDatabase } from '../support/databases.js'
import { long } from '../support/long.js'

/** A column as Prisma names it, with its table. */
const BY_PRISMA = /rate_limit_rule[`"]\.[`"]id[`"]/

const STAFF: Record<string, (app: FastifyInstance) => unknown> = {
  'the panel': (app) => app.register(adminPlugin, { isStaff: () => true }),
  'the API': (app) => app.register(apiPlugin, { prefix: '/api' }),
  'the dashboard': (app) => app.register(dashboardPlugin, { prefix: '/rl', isStaff: () => true }),
}

forAnyDatabase((provider) => {
  for (const [name, register] of Object.entries(STAFF)) {
    const loads = name === 'the panel'
    test(
      `a server with ${name} ${loads ? 'loads Prisma at start; one without rules does not' : 'does not load Prisma'}`,
      long(),
      async (t) => {
        for (const useDynamicRules of [true, false]) {
          const counted = countStatements()
          await startApp(t, {
            database: provider,
            plugin: { useDynamicRules },
            fastify: { pluginTimeout: 60_000 },
            routes: async (app) => void (await register(app)),
          })
          counted.stop()
          const byPrisma = counted.statements.filter((sql) => BY_PRISMA.test(sql))
          assert.equal(byPrisma.length > 0, loads && useDynamicRules, counted.statements.join('\n'))
        }
      },
    )
  }
})
