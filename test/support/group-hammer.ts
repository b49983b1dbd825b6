/**
 * One of several processes that send requests to apps with the same rules and the same counters at once.
 *
 *     node --import tsx group-hammer.ts <options JSON>
 *
 * On each path it asks for each user so many times, and prints how many requests of each were let through.
 */
import Fastify from 'fastify'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import { openStore, type StoreLocation } from './store-location.js'

export interface HammerOptions {
  readonly location: StoreLocation
  /** The database of the rules. */
  readonly rules: string
  readonly nowMs: number
  readonly paths: readonly string[]
  readonly users: readonly string[]
  readonly requests: number
}

/** The requests that are under way at once. */
const AT_ONCE = 20

const { location, rules, nowMs, paths, users, requests }: HammerOptions = JSON.parse(process.argv[2] ?? '')
const store = openStore(location)
const app = Fastify()
await app.register(rateLimitPlugin, {
  database: rules,
  useDynamicRules: true,
  storeTimeoutMs: 30_000,
  clock: { now: () => nowMs },
  user: ({ headers }) => ({ id: String(headers['x-user']) }),
  middleware: { backend: store, defaultRate: '1000000/d' },
})
app.get('/*', async () => 'ok')
for (const path of paths) {
  const admitted = Object.fromEntries(users.map((user) => [user, 0]))
  const left = Array.from({ length: requests }, () => users).flat()
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (let user = left.pop(); user !== undefined; user = left.pop()) {
        const { statusCode } = await app.inject({ url: path, headers: { 'x-user': user } })
        if (statusCode === 200) admitted[user] = (admitted[user] ?? 0) + 1
      }
    }),
  )
  console.log(JSON.stringify(admitted))
}
await app.close()
await store.close()
