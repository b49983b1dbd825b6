/** An app whose rules are of several groups, with its counters in any store. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { FastifyInstance } from 'fastify'
import type { RateLimitOptions, RequestDecision, Store } from '../../src/index.js'
import { atEnd } from './at-end.js'
import { okRoutes, openDatabase, startApp, type TestApp } from './build-app.js'
import { fakeClock } from './clock.js'
import type { TestDatabase } from './databases.js'
import { eventually } from './eventually.js'
import type { Answer, RequestOptions } from './http-client.js'
import { openStore } from './store-location.js'
import type { TestStore } from './stores.js'

/** Noon, on the second. */
export const NOON_MS = Date.UTC(2026, 10, 22, 12)

/** A rule for all paths, of a group; without a key for everybody. */
export interface GroupRule {
  readonly name: string
  readonly rate: string
  readonly [field: string]: string | number | boolean
}

export interface GroupApp extends TestApp {
  readonly database: TestDatabase
  /** Asks by a user, and returns the status. */
  by(user: string, path?: string): Promise<number>
  /** Asks by users at once, and returns how many were let through. */
  admitted(users: readonly string[]): Promise<number>
  /** Returns the counts of a user's limits on a path, by their names, and charges nothing. */
  counts(user?: string, path?: string): Promise<Record<string, number | null>>
  /** Waits until the counts of a user are these: what is given back is given back after the answer. */
  haveCounts(user: string, expected: Readonly<Record<string, number>>): Promise<void>
}

/**
 * Starts an app with these rules, whose counters are in memory unless a store is given.
 *
 * @param open opens a store that the end of the test closes
 */
export async function startGroupApp(
  t: TestContext,
  rules: readonly GroupRule[],
  {
    open,
    plugin = {},
    routes = okRoutes,
  }: {
    readonly open?: (() => Promise<TestStore>) | undefined
    readonly plugin?: RateLimitOptions
    readonly routes?: (app: FastifyInstance) => void
  } = {},
): Promise<GroupApp> {
  const database = await openDatabase(t, 'sqlite')
  const backend = open === undefined ? 'memory' : await openBackend(t, open)
  const started = await startApp(t, {
    database,
    clock: fakeClock(NOON_MS),
    plugin: {
      useDynamicRules: true,
      user: ({ headers }) => (headers['x-user'] === undefined ? null : { id: String(headers['x-user']) }),
      ...plugin,
      middleware: { backend, defaultRate: '1000/m', ...plugin.middleware },
    },
    routes(app) {
      routes(app)
      const peeking = { config: { smartRateLimit: false }, method: 'OPTIONS' } as const
      app.route({ ...peeking, url: '/*', handler: async (request) => app.smartRateLimit.peek(request) })
    },
  })
  for (const rule of rules) {
    await started.app.smartRateLimit.client.rateLimitRule.create({
      data: { pathPattern: '^/', key: rule.name === 'all' ? 'all' : 'user', ...rule },
    })
  }
  const userOptions = (user: string): RequestOptions => ({ headers: { 'x-user': user } })
  const by = async (user: string, path = '/') => (await started.request(path, userOptions(user))).status
  const counts: GroupApp['counts'] = async (user = 'anybody', path = '/') => {
    const { limits } = decisionIn(await started.request(path, { ...userOptions(user), method: 'OPTIONS' }))
    return Object.fromEntries(limits.map(({ policy, decision }) => [policy, decision?.count ?? null]))
  }
  return {
    ...started,
    database,
    by,
    async admitted(users) {
      const statuses = await Promise.all(users.map((user) => by(user)))
      return statuses.filter((status) => status === 200).length
    },
    counts,
    async haveCounts(user, expected) {
      let seen = {}
      await eventually(`the counts are ${JSON.stringify(expected)}`, async () => {
        seen = await counts(user)
        return JSON.stringify(seen) === JSON.stringify(expected)
      }).catch(() => assert.deepEqual(seen, expected))
    },
  }
}

async function openBackend(t: TestContext, open: () => Promise<TestStore>): Promise<Store> {
  const { location, close } = await open()
  const store = openStore(location)
  atEnd(t, async () => {
    await store.close()
    await close()
  })
  return store
}

function decisionIn({ status, text }: Answer): RequestDecision {
  assert.equal(status, 200)
  return JSON.parse(text)
}
