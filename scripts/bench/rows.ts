import fastifyRateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type RateLimitOptions, rateLimitPlugin } from '../../src/index.js'
import { CLIENT_HEADER } from './load.js'

/** One server of the comparison. */
export interface Row {
  readonly id: string
  readonly title: string
  /** Whether its answers carry the headers of a limit. */
  readonly isLimited: boolean
  /** What has to be there; the server is given its URL. */
  readonly needs?: 'sqlite' | 'postgresql'
  /** Puts the limiter of this row on an app. */
  register(app: FastifyInstance, databaseUrl: string | undefined, schema: string): Promise<void>
}

/** Never reached: a refused request would be a cheap one. */
const LIMIT = 1_000_000_000

function clientKey(request: FastifyRequest): string {
  return String(request.headers[CLIENT_HEADER])
}

function ours(options: RateLimitOptions, backend: 'memory' | 'database'): RateLimitOptions {
  return { ...options, middleware: { backend, defaultRate: `${LIMIT}/m`, key: clientKey } }
}

/** Every limiter counts per `x-client`, allows the same, and writes the `X-RateLimit-*` headers. */
export const ROWS: readonly Row[] = [
  {
    id: 'bare',
    title: 'bare Fastify',
    isLimited: false,
    register: async () => undefined,
  },
  {
    id: 'memory',
    title: 'fastify-smart-ratelimit, memory',
    isLimited: true,
    async register(app) {
      await app.register(rateLimitPlugin, ours({}, 'memory'))
    },
  },
  {
    id: 'sqlite',
    title: 'fastify-smart-ratelimit, SQLite',
    isLimited: true,
    needs: 'sqlite',
    async register(app, database) {
      await app.register(rateLimitPlugin, ours({ database }, 'database'))
    },
  },
  {
    id: 'postgresql',
    title: 'fastify-smart-ratelimit, PostgreSQL',
    isLimited: true,
    needs: 'postgresql',
    async register(app, database, schema) {
      await app.register(rateLimitPlugin, ours({ database, schema }, 'database'))
    },
  },
  {
    id: 'fastify-rate-limit-memory',
    title: '@fastify/rate-limit, memory',
    isLimited: true,
    async register(app) {
      await app.register(fastifyRateLimit, { max: LIMIT, timeWindow: '1 minute', keyGenerator: clientKey })
    },
  },
]
