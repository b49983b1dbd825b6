import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { PrismaPg } from '@prisma/adapter-pg'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { type RateLimiterAbstract, RateLimiterPrisma, RateLimiterRes } from 'rate-limiter-flexible'
import { clientKey, LIMIT, type Place } from './row.js'

/** Adds what rate-limiter-flexible leaves to its users: the headers and the 429. */
export function limitWith(app: FastifyInstance, limiter: RateLimiterAbstract): void {
  app.addHook('onRequest', async (request, reply) => {
    try {
      setHeaders(reply, await limiter.consume(clientKey(request)))
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      setHeaders(reply, refusal)
      reply.header('retry-after', Math.ceil(refusal.msBeforeNext / 1_000))
      return reply.code(429).send({ statusCode: 429, error: 'Too Many Requests', message: 'Rate limit exceeded' })
    }
  })
}

function setHeaders(reply: FastifyReply, { remainingPoints, msBeforeNext }: RateLimiterRes): void {
  reply.header('x-ratelimit-limit', LIMIT)
  reply.header('x-ratelimit-remaining', remainingPoints)
  reply.header('x-ratelimit-reset', Math.ceil(msBeforeNext / 1_000))
}

/** The part of the client generated from `prisma/schema.prisma` that the benchmark uses. */
interface PrismaClient {
  $executeRawUnsafe(sql: string): Promise<number>
  $disconnect(): Promise<void>
}

export async function prismaLimiter(app: FastifyInstance, { url, name, prismaClient }: Place) {
  const generated = await import(pathToFileURL(join(prismaClient, 'index.js')).href)
  const adapter = new PrismaPg({ connectionString: url }, { schema: name })
  const client: PrismaClient = new generated.PrismaClient({ adapter })
  app.addHook('onClose', () => client.$disconnect())
  // The table that `prisma migrate` would create.
  await client.$executeRawUnsafe(
    `CREATE TABLE "${name}"."RateLimiterFlexible" (key TEXT PRIMARY KEY, points INTEGER NOT NULL, expire TIMESTAMP(3))`,
  )
  return new RateLimiterPrisma({ storeClient: client, points: LIMIT, duration: 60 })
}
