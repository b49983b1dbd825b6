import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import pg from 'pg'
import * as flexible from 'rate-limiter-flexible'
import { withDefaults } from '../../src/api/entry-schemas.js'
import { addToken } from '../../src/api/token-table.js'
import { databaseFor } from '../../src/db/database.js'
import { apiPlugin, createRateLimitClient, migrate, type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { RULES } from '../../src/rules/rule.js'
import { CLIENT_HEADER, NEW_ENDING } from './load.js'
import type { Place } from './places.js'
import type { Need } from './servers.js'

type Register = (app: FastifyInstance, place: Place) => unknown

/** One server of the comparison. */
export interface Row {
  readonly name: string
  readonly needs?: Need
  /** The requested paths, in turn; `/` by default. One that ends with `NEW_ENDING` is another path each time. */
  readonly paths?: readonly string[]
  /** The row without a limiter that has the same requests and answers; none for such a row. */
  readonly bare?: string
  /** Whether nine requests of ten are refused. */
  readonly refuses?: boolean
  /** Whether the API answers, to which no limit applies. */
  readonly isApi?: boolean
  /** Registers the limiter on an app, before its routes. */
  readonly register: Register
}

export const BARE = 'bare Fastify'
const BARE_REFUSING = 'bare Fastify, answering 429 to 90 %'
export const BARE_RULES = 'bare Fastify, 100 rules as JSON'
export const OURS = 'fastify-smart-ratelimit'
export const PEERS = ['@fastify/rate-limit', 'rate-limiter-flexible'] as const
const [FASTIFY_RATE_LIMIT, FLEXIBLE] = PEERS

/** A limit that is practically never reached. */
const LIMIT = 1_000_000_000
/** The path whose limit is exhausted after one request of any client. */
const FULL_PATH = '/full'
/** The share of requests for `FULL_PATH` in the rows that refuse. */
export const REFUSED_SHARE = 0.9
const MOSTLY_FULL = ['/', ...Array<string>(9).fill(FULL_PATH)]
const REFUSING = { refuses: true, paths: MOSTLY_FULL, bare: BARE_REFUSING }
/** The path below which every id has a route. */
const THINGS_PATH = '/things/'
export const ROUTES = ['/', FULL_PATH, `${THINGS_PATH}:id`]
const REPEATING_PATHS = Array.from({ length: 16 }, (_, id) => `${THINGS_PATH}${id}`)

const API = '/ratelimit/api'
const API_RULES = 100
const READING_RULES = { isApi: true, paths: [`${API}/rules`], bare: BARE_RULES }

/** The advice of the peers' READMEs: a limiter should fail rather than wait. */
const REDIS_OPTIONS = { connectTimeout: 500, maxRetriesPerRequest: 1 }
const FASTIFY_OPTIONS = { max: LIMIT, timeWindow: '1 minute', keyGenerator: clientKey }
const FLEXIBLE_OPTIONS = { points: LIMIT, duration: 60 }

/** The rules in the order of the list, with all their fields. */
const API_ENTRIES = Array.from({ length: API_RULES }, (_, index) =>
  withDefaults(RULES.fields, { ...ruleAt(index), name: `rule-${String(index).padStart(3, '0')}`, priority: 1 }),
)

type OptionsAt = (place: Place) => RateLimitOptions
const memory: OptionsAt = () => ({ middleware: { backend: 'memory' } })
const database: OptionsAt = ({ url, name }) => ({ database: url, schema: name })
const redis: OptionsAt = ({ url, name }) => ({ redis: url, namespace: name, middleware: { backend: 'redis' } })

function withMiddleware(optionsAt: OptionsAt, middleware: RateLimitOptions['middleware']): OptionsAt {
  return (place) => {
    const options = optionsAt(place)
    return { ...options, middleware: { ...options.middleware, ...middleware } }
  }
}

/** Lets busy clients' requests be decided from shares. */
const leased = (optionsAt: OptionsAt) => withMiddleware(optionsAt, { lease: '1s' })
const twoWindows = (optionsAt: OptionsAt) => withMiddleware(optionsAt, { defaultRate: `${LIMIT}/m, ${LIMIT}/h` })

/** Every limiter counts per `x-client`, allows the same, and writes the `X-RateLimit-*` headers. */
export const ROWS: readonly Row[] = [
  { name: BARE, register: () => undefined },
  ours('memory', memory),
  ours('SQLite', database, { needs: 'sqlite' }),
  ours('PostgreSQL', database, { needs: 'postgresql' }),
  ours('Redis', redis, { needs: 'redis' }),
  ours('SQLite, two windows', twoWindows(database), { needs: 'sqlite' }),
  ours('PostgreSQL, two windows', twoWindows(database), { needs: 'postgresql' }),
  ours('Redis, two windows', twoWindows(redis), { needs: 'redis' }),
  ours('PostgreSQL, lease of 1 s', leased(database), { needs: 'postgresql' }),
  ours('Redis, lease of 1 s', leased(redis), { needs: 'redis' }),
  ours('SQLite + events', (place) => ({ ...database(place), logEvents: true }), { needs: 'sqlite' }),
  ours('PostgreSQL + events', (place) => ({ ...database(place), logEvents: true }), { needs: 'postgresql' }),
  peer(`${FASTIFY_RATE_LIMIT}, memory`, undefined, (app) => app.register(fastifyRateLimit, FASTIFY_OPTIONS)),
  peer(`${FASTIFY_RATE_LIMIT}, Redis`, 'redis', (app, { url, name }) =>
    app.register(fastifyRateLimit, { ...FASTIFY_OPTIONS, redis: openRedis(app, url), nameSpace: `${name}:` }),
  ),
  peer(`${FLEXIBLE}, memory`, undefined, (app) => limitWith(app, new flexible.RateLimiterMemory(FLEXIBLE_OPTIONS))),
  peer(`${FLEXIBLE}, Redis`, 'redis', (app, { url, name }) => {
    const storeClient = openRedis(app, url)
    limitWith(app, new flexible.RateLimiterRedis({ ...FLEXIBLE_OPTIONS, storeClient, keyPrefix: name }))
  }),
  peer(`${FLEXIBLE}, PostgreSQL`, 'postgresql', async (app, { url, name }) => {
    const storeClient = new pg.Pool({ connectionString: url })
    app.addHook('onClose', () => storeClient.end())
    const options = { ...FLEXIBLE_OPTIONS, storeClient, schemaName: name, tableName: 'rate_limiter_flexible' }
    await new Promise<void>((resolve, reject) => {
      limitWith(app, new flexible.RateLimiterPostgres(options, (error) => (error ? reject(error) : resolve())))
    })
  }),
  withRules(1, REPEATING_PATHS, 'paths that repeat'),
  withRules(10_000, REPEATING_PATHS, 'paths that repeat'),
  withRules(1, [THINGS_PATH + NEW_ENDING], 'paths that never repeat'),
  withRules(10_000, [THINGS_PATH + NEW_ENDING], 'paths that never repeat'),
  { name: BARE_RULES, paths: READING_RULES.paths, register: (app) => answerRules(app) },
  apiRow('sqlite', 'SQLite'),
  apiRow('postgresql', 'PostgreSQL'),
  besideApi(),
  { name: BARE_REFUSING, refuses: true, paths: MOSTLY_FULL, register: refuseWithoutLimiter },
  ours('memory, 90 % refused', memory, REFUSING),
  ours('PostgreSQL, 90 % refused', database, { ...REFUSING, needs: 'postgresql' }),
  ours('Redis, 90 % refused', redis, { ...REFUSING, needs: 'redis' }),
]

function peer(name: string, needs: Need | undefined, register: Register): Row {
  return { name, bare: BARE, ...(needs === undefined ? {} : { needs }), register }
}

export function ours(what: string, optionsAt: OptionsAt, rest: Partial<Row> = {}): Row {
  return {
    name: `${OURS}, ${what}`,
    bare: BARE,
    ...rest,
    register(app, place) {
      const { middleware, ...options } = optionsAt(place)
      const rateLimits = rest.refuses ? { [FULL_PATH]: '1/d' } : {}
      const defaults = { defaultRate: `${LIMIT}/m`, rateLimits, key: clientKey }
      return app.register(rateLimitPlugin, { ...options, middleware: { ...defaults, ...middleware } })
    },
  }
}

/** A row with rules, read before the first request, of which one matches. Counters are in memory, which costs little. */
export function withRules(count: number, paths: readonly string[], text: string): Row {
  // A request that no rule matches is refused, and so counts as failed.
  const middleware = { backend: 'memory', defaultRate: '0/m' } as const
  const row = ours(
    `${count.toLocaleString('en-US')} rule${count === 1 ? '' : 's'}, ${text}`,
    ({ url }) => ({ database: url, useDynamicRules: true, middleware }),
    { needs: 'sqlite', paths },
  )
  return {
    ...row,
    async register(app, place) {
      await migrate({ database: place.url })
      const client = createRateLimitClient({ database: place.url })
      await client.rateLimitRule.createMany({ data: Array.from({ length: count }, (_, index) => ruleAt(index)) })
      await client.$disconnect()
      await row.register(app, place)
      app.addHook('onReady', async () => void (await app.smartRateLimit.rules.active()))
    },
  }
}

/** Returns a rule that matches, and after it rules that do not, every tenth without a literal beginning. */
function ruleAt(index: number) {
  const rule = { name: `rule-${index}`, rate: `${LIMIT}/m`, key: `header:${CLIENT_HEADER}` }
  if (index === 0) return { ...rule, pathPattern: `^${THINGS_PATH}`, priority: 1 }
  const begun = `^/service-${index}/v\\d+/(items|orders)/[^/]+$`
  return { ...rule, pathPattern: index % 10 === 0 ? `/export-${index}\\.(csv|pdf)$` : begun, priority: 100 }
}

/** The API answers a page of 100 rules to the bearer of a token. */
function apiRow(needs: 'sqlite' | 'postgresql', what: string): Row {
  return {
    name: `${OURS}, API, ${API_RULES} rules, ${what}`,
    needs,
    ...READING_RULES,
    async register(app, { url, name: schema }) {
      await migrate({ database: url, schema })
      const client = createRateLimitClient({ database: url, schema })
      await client.rateLimitRule.createMany({ data: [...API_ENTRIES] })
      const reader = { name: 'reader', role: 'viewer', expiresAtMs: null }
      const token = await addToken(databaseFor(client), reader, Date.now())
      await client.$disconnect()
      // The load knows no token.
      app.addHook('onRequest', async ({ headers }) => void Object.assign(headers, { authorization: `Bearer ${token}` }))
      await app.register(rateLimitPlugin, { database: url, schema, middleware: { backend: 'memory' } })
      await app.register(apiPlugin, { prefix: API })
    },
  }
}

/** Answers the same as the API: the lowest possible cost. */
function answerRules(app: FastifyInstance): void {
  app.get(`${API}/rules`, async () => ({ items: API_ENTRIES, nextCursor: null }))
}

/** A limit beside an API that nobody uses. */
function besideApi(): Row {
  const row = ours('memory, beside the API', ({ url }) => ({ database: url, middleware: { backend: 'memory' } }), {
    needs: 'sqlite',
  })
  return {
    ...row,
    async register(app, place) {
      await row.register(app, place)
      await app.register(apiPlugin, { prefix: API })
    },
  }
}

/** Refuses in the same words as our limiter: the lowest possible cost. */
function refuseWithoutLimiter(app: FastifyInstance): void {
  const message = 'Rate limit exceeded, retry in 43200 seconds'
  const body = { statusCode: 429, code: 'FST_RATE_LIMIT_EXCEEDED', error: 'Too Many Requests', message }
  app.addHook('onRequest', (request, reply, done) => {
    if (request.url !== FULL_PATH) return done()
    setHeaders(reply, 1, 0, 43_200)
    void reply.code(429).header('retry-after', 43_200).send(body)
  })
}

/** Adds what rate-limiter-flexible leaves to its users: the headers and the refusal. */
function limitWith(app: FastifyInstance, limiter: flexible.RateLimiterAbstract): void {
  app.addHook('onRequest', async (request, reply) => {
    try {
      const { remainingPoints, msBeforeNext } = await limiter.consume(clientKey(request))
      setHeaders(reply, LIMIT, remainingPoints, Math.ceil(msBeforeNext / 1_000))
    } catch (refusal) {
      return reply.code(refusal instanceof Error ? 500 : 429).send(refusal)
    }
  })
}

function setHeaders(reply: FastifyReply, limit: number, remaining: number, resetSeconds: number): void {
  reply.header('x-ratelimit-limit', limit)
  reply.header('x-ratelimit-remaining', remaining)
  reply.header('x-ratelimit-reset', resetSeconds)
}

function openRedis(app: FastifyInstance, url: string): Redis {
  const redis = new Redis(url, REDIS_OPTIONS)
  app.addHook('onClose', async () => void (await redis.quit()))
  return redis
}

function clientKey(request: FastifyRequest): string {
  return String(request.headers[CLIENT_HEADER])
}

/** Returns the rows whose names contain one of the parts. A part that no name contains is wrong usage of the program. */
export function chooseRows(
  rows: readonly Row[],
  parts: readonly string[],
  program: Pick<CommandUnknownOpts, 'error'>,
): readonly Row[] {
  const matches = (name: string, part: string) => name.toLowerCase().includes(part.toLowerCase())
  const unknown = parts.find((part) => !rows.some(({ name }) => matches(name, part)))
  if (unknown !== undefined) program.error(`error: no row has ${JSON.stringify(unknown)} in its name`)
  return rows.filter(({ name }) => parts.some((part) => matches(name, part)))
}
