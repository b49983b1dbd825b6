/**
 * One of several processes whose apps reserve, charge and give back of the same counters, over HTTP.
 *
 *     node --import tsx unit-hammer.ts <options JSON>
 *
 * Makes so many requests of each user on each path, prints `over`, and then makes requests of the user `endless` until its
 * input ends. It tells of each step when that is done, in a line `<time> <step> <path> <user> <amount>`, which is in the pipe
 * even if it is killed then. The steps: `asks`, with what the request will use at most; `admitted`, with by how much its count
 * exceeds a limit; `charged`; and `ended`, with what the request has used in all.
 */
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import { seededRandom } from '../conformance/checks.js'
import { portOf } from './build-app.js'
import { openStore, type StoreLocation } from './store-location.js'

export interface UnitHammerOptions {
  readonly location: StoreLocation
  /** The database of the rules and of usage. */
  readonly database: { readonly url: string; readonly schema: string }
  readonly nowMs: number
  readonly paths: readonly string[]
  readonly users: readonly string[]
  /** The requests of each user on each path. */
  readonly requests: number
  /** What each request reserves. */
  readonly reserve: number
  /** The user whose requests are charged for more than they reserve. */
  readonly spender: string
}

export type Step = 'asks' | 'admitted' | 'charged' | 'ended' | 'over'

/** The requests that are under way at once. */
const AT_ONCE = 10

const options: UnitHammerOptions = JSON.parse(process.argv[2] ?? '')
const { location, database, nowMs, paths, users, requests, reserve, spender } = options
const random = seededRandom(process.pid)
const upTo = (most: number) => Math.floor(random() * (most + 1))
const tell = (step: Step, ...words: readonly (string | number)[]) => console.log(Date.now(), step, ...words)

const store = openStore(location)
const app = Fastify({ forceCloseConnections: true })
let underWay = 0
await app.register(rateLimitPlugin, {
  database: database.url,
  schema: database.schema,
  useDynamicRules: true,
  usage: ['tokens'],
  storeTimeoutMs: 30_000,
  clock: { now: () => nowMs },
  user: ({ headers }) => ({ id: String(headers['x-user']) }),
  middleware: { backend: store, defaultRate: '1000000/d' },
})
app.get('/*', async (request) => {
  underWay++
  const { charge, decisionOf } = app.smartRateLimit
  const limits = decisionOf(request)?.limits ?? []
  const of = [request.url, String(request.headers['x-user'])]
  tell('admitted', ...of, Math.max(...limits.map(({ decision }) => (decision?.count ?? 0) - (decision?.limit ?? 0))))
  let used: number | undefined
  for (const tokens of JSON.parse(String(request.headers['x-charges']))) {
    for (let turns = upTo(3); turns > 0; turns--) await turn()
    const left = await charge(request, { tokens })
    if (left.tokens === null) throw new Error('the store has not answered')
    tell('charged', ...of, tokens)
    used = (used ?? 0) + tokens
  }
  tell('ended', ...of, used ?? reserve)
  underWay--
  return 'ok'
})
await app.listen({ port: 0, host: '127.0.0.1' })

/** Makes one request, which charges up to four times or never; some clients leave before its end. */
async function ask(path: string, user: string): Promise<void> {
  const most = user === spender ? reserve : Math.floor(reserve / 4)
  const charges = Array.from({ length: upTo(4) }, () => upTo(most))
  const total = charges.reduce((sum, amount) => sum + amount, 0)
  tell('asks', path, user, Math.max(reserve, total))
  const leaving = new AbortController()
  if (upTo(4) === 0) setTimeout(() => leaving.abort(), upTo(20))
  try {
    const headers = { 'x-user': user, 'x-charges': JSON.stringify(charges) }
    const answer = await fetch(`http://127.0.0.1:${portOf(app)}${path}`, { headers, signal: leaving.signal })
    await answer.text()
  } catch (error) {
    if (!leaving.signal.aborted) throw error
  }
}

async function atOnce(clients: number, next: () => [path: string, user: string] | undefined): Promise<void> {
  const work = async () => {
    for (let each = next(); each !== undefined; each = next()) await ask(...each)
  }
  await Promise.all(Array.from({ length: clients }, work))
  while (underWay > 0) await turn()
}

const left = paths.flatMap((path) =>
  Array.from({ length: requests }, () => users.map((user): [string, string] => [path, user])).flat(),
)
await atOnce(AT_ONCE, () => left.pop())
tell('over')
let goesOn = true
process.stdin.resume().once('end', () => {
  goesOn = false
})
await atOnce(1, () => (goesOn ? ['/endless', 'endless'] : undefined))
await app.close()
await store.close()
