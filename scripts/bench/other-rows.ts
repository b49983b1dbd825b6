import fastifyRateLimit from '@fastify/rate-limit'
import { Redis } from 'ioredis'
import pg from 'pg'
import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRedis } from 'rate-limiter-flexible'
import { limitWith, prismaLimiter } from './flexible.js'
import { clientKey, LIMIT, type Row } from './row.js'

const FASTIFY_RATE_LIMIT = { max: LIMIT, timeWindow: '1 minute', keyGenerator: clientKey }
const FLEXIBLE = { points: LIMIT, duration: 60 }

/** The advice of its README: a limiter should fail rather than wait. */
const REDIS_OPTIONS = { connectTimeout: 500, maxRetriesPerRequest: 1 }

/** Other limiters, each set up as in its README, with the same clients and the same limit. */
export const OTHER_ROWS: readonly Row[] = [
  {
    id: 'fastify-rate-limit-memory',
    title: '@fastify/rate-limit, memory',
    bare: 'bare',
    async register(app) {
      await app.register(fastifyRateLimit, FASTIFY_RATE_LIMIT)
    },
  },
  {
    id: 'fastify-rate-limit-redis',
    title: '@fastify/rate-limit, Redis',
    bare: 'bare',
    needs: 'redis',
    async register(app, { url, name }) {
      const redis = new Redis(url, REDIS_OPTIONS)
      app.addHook('onClose', async () => void (await redis.quit()))
      await app.register(fastifyRateLimit, { ...FASTIFY_RATE_LIMIT, redis, nameSpace: `${name}:` })
    },
  },
  {
    id: 'rate-limiter-flexible-memory',
    title: 'rate-limiter-flexible, memory',
    bare: 'bare',
    async register(app) {
      limitWith(app, new RateLimiterMemory(FLEXIBLE))
    },
  },
  {
    id: 'rate-limiter-flexible-redis',
    title: 'rate-limiter-flexible, Redis',
    bare: 'bare',
    needs: 'redis',
    async register(app, { url, name }) {
      const redis = new Redis(url, REDIS_OPTIONS)
      app.addHook('onClose', async () => void (await redis.quit()))
      limitWith(app, new RateLimiterRedis({ ...FLEXIBLE, storeClient: redis, keyPrefix: name }))
    },
  },
  {
    id: 'rate-limiter-flexible-postgresql',
    title: 'rate-limiter-flexible, PostgreSQL',
    bare: 'bare',
    needs: 'postgresql',
    async register(app, { url, name }) {
      const pool = new pg.Pool({ connectionString: url })
      app.addHook('onClose', () => pool.end())
      const options = { ...FLEXIBLE, storeClient: pool, schemaName: name, tableName: 'rate_limiter_flexible' }
      const limiter = await new Promise<RateLimiterPostgres>((resolve, reject) => {
        const made = new RateLimiterPostgres(options, (error) => (error ? reject(error) : resolve(made)))
      })
      limitWith(app, limiter)
    },
  },
  {
    id: 'rate-limiter-flexible-prisma',
    title: 'rate-limiter-flexible, Prisma (PostgreSQL)',
    bare: 'bare',
    needs: 'postgresql',
    needsPrisma: true,
    async register(app, place) {
      limitWith(app, await prismaLimiter(app, place))
    },
  },
]
