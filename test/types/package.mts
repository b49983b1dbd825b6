/**
 * The types of the package as a host sees them. It is compiled, and never run: by `npm run test:types` against the
 * build, by `.ci/run` against the installed tarball, as TypeScript finds modules for Node.js and for bundlers.
 */
import Fastify, { type FastifyBaseLogger, type FastifyRequest, type FastifyTypeProvider } from 'fastify'
import rateLimit, {
  AccessDeniedError,
  asActor,
  type Change,
  createAnalytics,
  createRateLimitClient,
  DatabaseStore,
  type EventLogStats,
  type Explanation,
  type FieldErrors,
  type Health,
  type ImportResult,
  InvalidSettingError,
  MemoryStore,
  migrate,
  PathTooLongError,
  parseRate,
  type Rate,
  RateLimitExceededError,
  type RateLimitOptions,
  RedisStore,
  type RequestDecision,
  type RouteLimitHook,
  type Rule,
  type RuleDocument,
  RuleValidationError,
  rateLimitPlugin,
  type SmartRateLimit,
  type Store,
  StoreUnavailableError,
} from 'fastify-smart-ratelimit'
import {
  dashboardPlugin,
  hashPassword,
  type StaffAccounts,
  type StaffMember,
  staffAccounts,
} from 'fastify-smart-ratelimit/dashboard'
import {
  type ClientLimit,
  createLimiter,
  type Decision,
  type Permit,
  type RateLimiter,
} from 'fastify-smart-ratelimit/limiter'
import type {
  AlertResult,
  ClientDetail,
  IncidentAlertResult,
  Offender,
  OffenderDetail,
  RuleHitCount,
  RulePreview,
  SuggestedRates,
  TopClient,
  TrafficSummary,
} from 'fastify-smart-ratelimit/reports'
import { type ConformanceCase, storeConformance } from 'fastify-smart-ratelimit/testing'
import { expectType } from './expect-type.mjs'

const app = Fastify()
const ok = async () => 'ok'

// Registering: with and without options, by both names.
await app.register(rateLimitPlugin)
await app.register(rateLimit, { middleware: { key: (request) => request.ip, backend: new MemoryStore() } })
await app.register(rateLimitPlugin, {
  logEvents: 'blocked',
  onStoreError: 'deny',
  user: async (request) => (request.ip === '' ? null : { id: 7n }),
  middleware: {
    defaultRate: async () => '100/m',
    rateLimits: { '/auth/': '5/m' },
    algorithm: 'token_bucket',
    counts: '4xx,5xx',
  },
  schedule: { alerts: '0,30 * * * *' },
  skip: async (request) => request.ip === '',
  onRefused: (request, { policy, rule, client, key, limit }) => request.log.info({ policy, rule, client, key, limit }),
})
// @ts-expect-error an option that does not exist
await app.register(rateLimitPlugin, { limitEverything: true })
// @ts-expect-error an algorithm that does not exist
const _wrong: RateLimitOptions = { middleware: { algorithm: 'fixed' } }

// What the app is decorated with.
const limits = app.smartRateLimit
expectType<SmartRateLimit>()(limits)
expectType<Promise<RequestDecision | null>>()(limits.check({} as FastifyRequest, { cost: 2 }))
expectType<Promise<RequestDecision | null>>()(limits.peek({} as FastifyRequest))
expectType<Promise<void>>()(limits.reset('ip:203.0.113.7'))
expectType<Promise<Health>>()(limits.health())
expectType<EventLogStats>()(limits.events.stats())
expectType<Store>()(limits.store)
expectType<Promise<readonly Rule[]>>()(limits.rules.active())
expectType<Promise<Change[]>>()(limits.rules.history('api', { limit: 10 }))
expectType<Promise<RuleDocument>>()(limits.rules.export())
expectType<Promise<ImportResult>>()(limits.rules.import({}, { dryRun: true }))
expectType<Promise<RulePreview>>()(
  limits.rules.preview({ name: 'api', pathPattern: '^/api', rate: '5/m', cost: 2, startsAt: new Date() }, { hours: 2 }),
)
expectType<number>()(await limits.client.rateLimitRule.count())
expectType<Promise<number>>()(limits.client.rateLimitEvent.cleanupOld({ olderThanDays: 30 }))
expectType<Promise<TrafficSummary>>()(limits.analytics.getTrafficSummary({ days: 2 }))
expectType<Promise<readonly Offender[]>>()(limits.analytics.getTopOffenders())
expectType<Promise<readonly RuleHitCount[]>>()(limits.analytics.getRuleHitCounts())
expectType<Promise<OffenderDetail>>()(limits.analytics.getOffenderDetail({ key: 'ip:203.0.113.7' }))
expectType<Promise<readonly TopClient[]>>()(limits.analytics.getTopClients({ by: 'requests', days: 1 / 24 }))
expectType<Promise<ClientDetail>>()(limits.analytics.getClient({ client: 'ip:203.0.113.7' }))
// @ts-expect-error: not a measure
limits.analytics.getTopClients({ by: 'allowed' })
expectType<Promise<SuggestedRates>>()(limits.analytics.suggestRates({ path: '/login', method: 'POST', days: 1 }))
// @ts-expect-error: no filter of rules
limits.analytics.suggestRates({ key: 'ip:203.0.113.7' })
expectType<Promise<Explanation>>()(limits.explain({ path: '/', user: { id: 7 }, headers: { 'x-a': ['1', '2'] } }))
// @ts-expect-error: the path is missing
limits.explain({ method: 'GET' })
expectType<Promise<AlertResult>>()(limits.analytics.sendOffenderAlerts({ threshold: 3 }))
expectType<Promise<IncidentAlertResult>>()(limits.analytics.sendIncidentAlerts())

// The limits of routes are hooks of Fastify, for every place that takes one.
const hook = limits.limit({
  rate: '5/m',
  key: 'user',
  counts: '401',
  cost: (request) => Number(request.headers['x-cost']),
})
expectType<RouteLimitHook>()(hook)
expectType<Promise<RequestDecision | null>>()(hook.check({} as FastifyRequest, { cost: 2 }))
expectType<Promise<RequestDecision | null>>()(hook.peek({} as FastifyRequest))
limits.limit({ rate: '5/m', allowList: ['10.0.0.0/8'] })
app.addHook('onRequest', hook)
app.addHook('preHandler', hook)
app.get('/one', { onRequest: hook }, ok)
app.get<{ Params: { id: string } }>('/typed/:id', { preHandler: [hook], config: { smartRateLimit: { cost: 2 } } }, ok)
app.get('/opted-out', { config: { smartRateLimit: false } }, ok)
// @ts-expect-error a rate is needed
limits.limit({ key: 'ip' })
// @ts-expect-error true is no configuration of a route
app.get('/wrong', { config: { smartRateLimit: true } }, ok)

// Apps with a type provider, and with a logger of their own.
interface Provider extends FastifyTypeProvider {
  validator: this['schema']
}
const provided = Fastify().withTypeProvider<Provider>()
await provided.register(rateLimitPlugin, { enabled: true })
const { limit } = provided.smartRateLimit
provided.get('/', { schema: { querystring: {} }, onRequest: limit({ rate: '5/m' }) }, async (request) =>
  limits.decisionOf(request),
)
const logged = Fastify({ loggerInstance: {} as FastifyBaseLogger & { audit(): void } })
await logged.register(rateLimitPlugin, { enabled: true })
await logged.register(dashboardPlugin, { isStaff: () => true })
logged.get('/', { preHandler: hook }, async (request) => limits.check(request))

// Apps of every server. A hook of one app's limit is one for all.
const secure = Fastify({ https: {} })
await secure.register(rateLimitPlugin)
secure.get('/', { onRequest: secure.smartRateLimit.limit({ rate: '5/m' }) }, async (request) => hook.check(request))
const http2 = Fastify({ http2: true })
await http2.register(rateLimit)
http2.addHook('preParsing', (request, reply, _payload, done) => hook(request, reply, done))
http2.get('/', { onRequest: http2.smartRateLimit.limit({ rate: '5/m' }) }, async (request) => limits.peek(request))
const secureHttp2 = Fastify({ http2: true, https: { allowHTTP1: true } })
await secureHttp2.register(rateLimitPlugin, { middleware: { key: (request) => request.ip } })
await secureHttp2.register(dashboardPlugin, { prefix: '/ratelimit', isStaff: (request) => request.ip === '127.0.0.1' })
secureHttp2.addHook('onRequest', hook)
secureHttp2.addHook('preValidation', hook)
secureHttp2.addHook('preHandler', hook)
secureHttp2.setNotFoundHandler({ preHandler: hook }, async (request) => limits.decisionOf(request))
secureHttp2.get<{ Params: { id: string } }>(
  '/:id',
  { onRequest: [hook], preHandler: hook, config: { smartRateLimit: { rate: '5/m', allowList: ['::1'] } } },
  async (request) => [await hook.check(request, { cost: 2 }), await hook.peek(request), await limits.check(request)],
)
// @ts-expect-error a reply is no request
secureHttp2.get('/wrong', async (_request, reply) => hook.check(reply))

// A decision, also of a refusal that an error handler reshapes.
app.setErrorHandler((error, request, reply) => {
  expectType<RequestDecision | null>()(limits.decisionOf(request))
  if (error instanceof RateLimitExceededError) {
    expectType<RequestDecision>()(error.decision)
    expectType<string>()(error.code)
    return reply.code(error.statusCode ?? 429).send({ wait: error.decision.retryAfterMs })
  }
  if (
    error instanceof StoreUnavailableError ||
    error instanceof PathTooLongError ||
    error instanceof AccessDeniedError
  ) {
    expectType<RequestDecision>()(error.decision)
  }
  if (error instanceof RuleValidationError) expectType<FieldErrors>()(error.errors)
  // @ts-expect-error a setting that is wrong is no refusal
  if (error instanceof InvalidSettingError) return error.decision
  throw error
})
app.get<{ Querystring: { q: string } }>('/search', async (request) => limits.decisionOf(request)?.remaining)

// Staff.
const staff = staffAccounts({ accounts: { alice: await hashPassword('…') }, sessionSecret: 'x'.repeat(32) })
expectType<StaffAccounts>()(staff)
await app.register(dashboardPlugin, { prefix: '/ratelimit', staff })
await app.register(dashboardPlugin, { isStaff: async (request) => request.ip === '127.0.0.1', templates: './pages' })
const member: StaffMember = { actor: 'alice', role: 'operator' }
await app.register(dashboardPlugin, { isStaff: (request) => request.ip === '127.0.0.1' && member })
// @ts-expect-error there is no such role
await app.register(dashboardPlugin, { isStaff: () => ({ actor: 'alice', role: 'root' }) })
// @ts-expect-error the sign-in is called staff
await app.register(dashboardPlugin, { accounts: staff })

secureHttp2.get('/who', async (request) => [await staff.accountFor(request), await staff.isStaff(request)])

// Without a server.
const client = createRateLimitClient({ database: 'file:./ratelimit.db' })
await app.register(rateLimitPlugin, { database: client })
expectType<Promise<string[]>>()(migrate({ database: 'file:./ratelimit.db' }))
expectType<Promise<number>>()(asActor('alice', () => client.rateLimitRule.count()))
const reports = createAnalytics({ database: client, alertThreshold: 3 })
expectType<Promise<string>>()(reports.offendersCsv({ days: 7, limit: 10 }))
expectType<Promise<void>>()(reports.close())
expectType<Rate>()(parseRate('5/m'))

// Without an app.
const limiter: RateLimiter = await createLimiter({ redis: 'redis://127.0.0.1:6379', log: app.log })
const jobs: ClientLimit = limiter.limit({ name: 'jobs', rate: '100/m', algorithm: 'token_bucket' })
expectType<Promise<Decision>>()(jobs.consume('user:7', { cost: 2 }))
expectType<Promise<Decision | null>>()(jobs.charge('user:7', 1_834))
expectType<Promise<void>>()(jobs.refund('user:7', 1))
const permit: Permit = await jobs.acquire('all')
expectType<void>()(permit.release())
// @ts-expect-error a limit without a request has no key
limiter.limit({ name: 'jobs', rate: '100/m', key: 'ip' })
// @ts-expect-error and it needs a name
limiter.limit({ rate: '100/m' })
app.get('/jobs', { onRequest: limits.limit({ name: 'jobs', rate: '100/m', shared: true }) }, async () => 'ok')

// Stores, and one of the host's own.
const stores: Store[] = [new MemoryStore(), new DatabaseStore({}), new RedisStore({ redis: 'redis://127.0.0.1:6379' })]
class OwnStore implements Store {
  readonly concurrency = 1
  check: Store['check'] = (checks, nowMs) => new MemoryStore().check(checks, nowMs)
  reset(): void {}
  close(): void {}
}
expectType<readonly ConformanceCase[]>()(storeConformance)
for (const { prove } of storeConformance) await prove(() => stores[0] ?? new OwnStore())
