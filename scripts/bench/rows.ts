/** The servers that are compared. Every limiter counts per `x-client`, allows all, and writes the same headers. */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import pg from 'pg'
import * as flexible from 'rate-limiter-flexible'
import { createRateLimitClient, migrate, type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { createLimiter } from '../../src/limiter.js'
import { CLIENT_HEADER, NEW_ENDING } from './load.js'
import { countries, operators } from './mmdb.js'
import type { Backend, Need } from './servers.js'

type Register = (app: FastifyInstance, backend: Backend) => unknown

/** A server of the comparison. */
export interface Row {
  readonly name: string
  readonly needs?: Need
  /** The requested paths, in turn; `/` by default. One that ends with `NEW_ENDING` is another path each time. */
  readonly paths?: readonly string[]
  /** Fills the database, before the servers start. */
  readonly prepare?: (backend: Backend) => Promise<void>
  /** Registers the limiter on an app, before its routes. */
  readonly register: Register
}

/** The row without a limiter, which all others are compared with. */
export const BARE = 'bare Fastify'
/** The row of what every limiter with the same headers costs at least. */
export const HEADERS_ALONE = 'bare Fastify, with three headers'
export const OURS = 'fastify-smart-ratelimit'
export const PEERS = ['@fastify/rate-limit', 'rate-limiter-flexible'] as const
const [FASTIFY_RATE_LIMIT, FLEXIBLE] = PEERS

/** A limit that is practically never reached. */
const LIMIT = 1_000_000_000
/** The path below which every id has a route. */
const THINGS_PATH = '/things/'
export const ROUTES = ['/', `${THINGS_PATH}:id`]
const REPEATING_PATHS = Array.from({ length: 16 }, (_, id) => `${THINGS_PATH}${id}`)

/** The advice of the peers' READMEs: a limiter should fail rather than wait. */
const REDIS_OPTIONS = { connectTimeout: 500, maxRetriesPerRequest: 1 }
const FASTIFY_OPTIONS = { max: LIMIT, timeWindow: '1 minute', keyGenerator: clientKey }
const FLEXIBLE_OPTIONS = { points: LIMIT, duration: 60 }

type OptionsAt = (backend: Backend) => RateLimitOptions
const database: OptionsAt = ({ url, name }) => ({ database: url, schema: name })
const redis: OptionsAt = ({ url, name }) => ({ redis: url, namespace: name, middleware: { backend: 'redis' } })

type Logged = RateLimitOptions['logEvents']
const logged = (options: RateLimitOptions, logEvents: Logged = true): RateLimitOptions => ({ ...options, logEvents })
const COLLAPSED: Logged = { allowed: 'collapsed', refused: 'collapsed' }
const SUMS: Logged = { allowed: 'sums', refused: 'collapsed' }
/** Lets busy clients' requests be decided from shares. */
const leased = ({ middleware, ...options }: RateLimitOptions): RateLimitOptions => {
  return { ...options, middleware: { ...middleware, lease: '1s' } }
}

/** Checks by the key alone, without headers and without an app: of this package, and of the peer that has them. */
export const CONSUMING: readonly Row[] = [
  {
    name: `${OURS}/limiter, consume in memory`,
    register: async (app) => {
      const limiter = await createLimiter()
      const limit = limiter.limit({ name: 'bench', rate: `${LIMIT}/m` })
      app.addHook('onRequest', (request) => limit.consume(`header:${CLIENT_HEADER}:${clientKey(request)}`))
      app.addHook('onClose', () => limiter.close())
    },
  },
  {
    name: `${FLEXIBLE}, consume in memory`,
    register: (app) => {
      const limiter = new flexible.RateLimiterMemory(FLEXIBLE_OPTIONS)
      app.addHook('onRequest', (request) => limiter.consume(clientKey(request)))
    },
  },
]

/** The bare server, with which the others are compared, and these. */
export const ROWS: readonly [Row, ...Row[]] = [
  { name: BARE, register: () => undefined },
  { name: HEADERS_ALONE, register: (app) => void app.addHook('onRequest', setHeaders) },
  ours('memory', () => ({ middleware: { backend: 'memory' } })),
  ours('SQLite', database, { needs: 'sqlite' }),
  ours('PostgreSQL', database, { needs: 'postgresql' }),
  ours('Redis', redis, { needs: 'redis' }),
  ours('PostgreSQL, lease of 1 s', (backend) => leased(database(backend)), { needs: 'postgresql' }),
  ours('Redis, lease of 1 s', (backend) => leased(redis(backend)), { needs: 'redis' }),
  ours('SQLite + events', (backend) => logged(database(backend)), { needs: 'sqlite' }),
  ours('PostgreSQL + events', (backend) => logged(database(backend)), { needs: 'postgresql' }),
  ours('SQLite + collapsed events', (backend) => logged(database(backend), COLLAPSED), { needs: 'sqlite' }),
  ours('PostgreSQL + collapsed events', (backend) => logged(database(backend), COLLAPSED), { needs: 'postgresql' }),
  ours('SQLite + sums of events', (backend) => logged(database(backend), SUMS), { needs: 'sqlite' }),
  ours('PostgreSQL + sums of events', (backend) => logged(database(backend), SUMS), { needs: 'postgresql' }),
  {
    name: `${FASTIFY_RATE_LIMIT}, memory`,
    register: (app) => app.register(fastifyRateLimit, FASTIFY_OPTIONS),
  },
  {
    name: `${FASTIFY_RATE_LIMIT}, Redis`,
    needs: 'redis',
    register: (app, { url, name }) =>
      app.register(fastifyRateLimit, { ...FASTIFY_OPTIONS, redis: openRedis(app, url), nameSpace: `${name}:` }),
  },
  {
    name: `${FLEXIBLE}, memory`,
    register: (app) => limitWith(app, new flexible.RateLimiterMemory(FLEXIBLE_OPTIONS)),
  },
  {
    name: `${FLEXIBLE}, Redis`,
    needs: 'redis',
    register(app, { url, name }) {
      const storeClient = openRedis(app, url)
      limitWith(app, new flexible.RateLimiterRedis({ ...FLEXIBLE_OPTIONS, storeClient, keyPrefix: name }))
    },
  },
  {
    name: `${FLEXIBLE}, PostgreSQL`,
    needs: 'postgresql',
    async register(app, { url, name }) {
      const storeClient = new pg.Pool({ connectionString: url })
      app.addHook('onClose', () => storeClient.end())
      const options = { ...FLEXIBLE_OPTIONS, storeClient, schemaName: name, tableName: 'rate_limiter_flexible' }
      await new Promise<void>((resolve, reject) => {
        limitWith(app, new flexible.RateLimiterPostgres(options, (error) => (error ? reject(error) : resolve())))
      })
    },
  },
  withGroups('memory', { needs: 'sqlite' }),
  withGroups('PostgreSQL', { needs: 'postgresql' }),
  withGroups('Redis', { needs: 'redis' }),
  withTokens('PostgreSQL', database, false),
  withTokens('PostgreSQL', database, true),
  withTokens('Redis', redis, false),
  withTokens('Redis', redis, true),
  withRules(1, REPEATING_PATHS, 'paths that repeat'),
  withRules(10_000, REPEATING_PATHS, 'paths that repeat'),
  withRules(1, [THINGS_PATH + NEW_ENDING], 'paths that never repeat'),
  withRules(10_000, [THINGS_PATH + NEW_ENDING], 'paths that never repeat'),
]

export function ours(what: string, optionsAt: OptionsAt, rest: Partial<Row> = {}): Row {
  return {
    name: `${OURS}, ${what}`,
    ...rest,
    register(app, backend) {
      const { middleware, ...options } = optionsAt(backend)
      const defaults = { defaultRate: `${LIMIT}/m`, key: clientKey }
      return app.register(rateLimitPlugin, { ...options, middleware: { ...defaults, ...middleware } })
    },
  }
}

/**
 * A row whose limit is in tokens, of which a request reserves one. Charged, it uses another one, and waits for the store
 * again. It keeps no usage.
 */
function withTokens(where: 'PostgreSQL' | 'Redis', optionsAt: OptionsAt, isCharged: boolean): Row {
  const toOptions: OptionsAt = (backend) => {
    const { middleware, ...options } = optionsAt(backend)
    return { ...options, usage: false, middleware: { ...middleware, unit: 'tokens', reserve: 1 } }
  }
  const needs = where === 'Redis' ? 'redis' : 'postgresql'
  const row = ours(`tokens ${isCharged ? 'charged' : 'reserved'}, ${where}`, toOptions, { needs })
  if (!isCharged) return row
  return {
    ...row,
    async register(app, backend) {
      await row.register(app, backend)
      app.addHook('preHandler', async (request) => void (await app.smartRateLimit.charge(request, { tokens: 2 })))
    },
  }
}

/** A row with rules, read before the first request, of which one matches. Counters are in memory, which costs little. */
export function withRules(count: number, paths: readonly string[], text: string): Row {
  const what = `${count.toLocaleString('en-US')} rule${count === 1 ? '' : 's'}, ${text}`
  const toRules = () => Array.from({ length: count }, (_, index) => ruleAt(index))
  return ruled(what, 'memory', { needs: 'sqlite', paths }, toRules)
}

/** A row with a rule of each of three groups, all of which match: a request has three counters of its client. */
export function withGroups(where: 'memory' | 'PostgreSQL' | 'Redis', rest: Pick<Row, 'needs' | 'paths'>): Row {
  const backend = where === 'PostgreSQL' ? 'database' : where === 'Redis' ? 'redis' : 'memory'
  const groups = ['', 'team', 'organisation']
  return ruled(`3 groups, ${where}`, backend, rest, () =>
    groups.map((group, index) => ({ ...ruleAt(0), pathPattern: '^/', name: `rule-${index}`, group })),
  )
}

/**
 * A row with a rule whose condition holds, in an app that knows a list of a million addresses, and the countries and
 * network operators of addresses.
 */
export function withCondition(condition: string): Row {
  const filesIn = (folder: string) => ({
    list: join(folder, 'list.txt'),
    geo: { country: join(folder, 'country.mmdb'), asn: join(folder, 'asn.mmdb') },
  })
  const toRules = () => [{ ...ruleAt(0), condition }]
  const row = ruled(`1 rule, ${condition}`, 'memory', { needs: 'sqlite' }, toRules, ({ folder }) => {
    const { list, geo } = filesIn(folder)
    return { lists: { bench: list }, geo }
  })
  return {
    ...row,
    async prepare(backend) {
      const { list, geo } = filesIn(backend.folder)
      await writeFile(list, millionAddresses())
      await writeFile(geo.country, countries({ '127.0.0.0/8': 'DE' }))
      await writeFile(geo.asn, operators({ '127.0.0.0/8': [64_500, 'Example'] }))
      await row.prepare?.(backend)
    },
  }
}

/** Returns the lines of a list of scattered addresses, of which this machine's is none. */
function millionAddresses(): string {
  const lines = Array.from({ length: 1_000_000 }, (_, index) => {
    const ip = 0x10000000 + index * 1_601
    return [24, 16, 8, 0].map((shift) => (ip >>> shift) & 255).join('.')
  })
  return `${lines.join('\n')}\n`
}

/** A row with rules that are read before the first request. */
function ruled(
  what: string,
  backend: 'memory' | 'database' | 'redis',
  rest: Pick<Row, 'needs' | 'paths'>,
  toRules: () => (ReturnType<typeof ruleAt> & { readonly condition?: string })[],
  more: OptionsAt = () => ({}),
): Row {
  // A request that no rule matches is refused, and so counts as failed.
  const middleware = { backend, defaultRate: '0/m' } as const
  const optionsAt: OptionsAt = (at) => ({
    ...(backend === 'redis' && redis(at)),
    ...database({ ...at, url: at.rules }),
    ...more(at),
    useDynamicRules: true,
    middleware,
  })
  const row = ours(what, optionsAt, rest)
  return {
    ...row,
    async prepare({ rules, name }) {
      await migrate({ database: rules, schema: name })
      const client = createRateLimitClient({ database: rules, schema: name })
      await client.rateLimitRule.createMany({ data: toRules() })
      await client.$disconnect()
    },
    async register(app, backend) {
      await row.register(app, backend)
      app.addHook('onReady', async () => void (await app.smartRateLimit.rules.active()))
    },
  }
}

/** Returns a rule that matches, and after it rules that do not, every tenth without a literal beginning. */
function ruleAt(index: number) {
  const rule = { name: `rule-${index}`, group: '', rate: `${LIMIT}/m`, key: `header:${CLIENT_HEADER}` }
  if (index === 0) return { ...rule, pathPattern: `^${THINGS_PATH}`, priority: 1 }
  const begun = `^/service-${index}/v\\d+/(items|orders)/[^/]+$`
  return { ...rule, pathPattern: index % 10 === 0 ? `/export-${index}\\.(csv|pdf)$` : begun, priority: 100 }
}

function setHeaders(_request: FastifyRequest, reply: FastifyReply, done: () => void): void {
  reply.header('x-ratelimit-limit', LIMIT)
  reply.header('x-ratelimit-remaining', LIMIT)
  reply.header('x-ratelimit-reset', 60)
  done()
}

/** Adds what rate-limiter-flexible leaves to its users: the headers and the refusal. */
function limitWith(app: FastifyInstance, limiter: flexible.RateLimiterAbstract): void {
  app.addHook('onRequest', async (request, reply) => {
    try {
      const { remainingPoints, msBeforeNext } = await limiter.consume(clientKey(request))
      reply.header('x-ratelimit-limit', LIMIT)
      reply.header('x-ratelimit-remaining', remainingPoints)
      reply.header('x-ratelimit-reset', Math.ceil(msBeforeNext / 1_000))
    } catch (refusal) {
      return reply.code(refusal instanceof Error ? 500 : 429).send(refusal)
    }
  })
}

function openRedis(app: FastifyInstance, url: string): Redis {
  const client = new Redis(url, REDIS_OPTIONS)
  app.addHook('onClose', async () => void (await client.quit()))
  return client
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
