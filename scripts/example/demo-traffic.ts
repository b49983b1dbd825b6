import type { FastifyInstance, FastifyRequest } from 'fastify'
import { MINUTE_MS, SECOND_MS } from '../../src/time/clock.js'
import { requestsWithin, TRAFFIC } from './demo-story.js'

const TOKEN = /^Bearer demo-(\d+)$/

/** Returns the customer whose token a request has. The tokens are no secrets: the customers are invented. */
export function demoUser({ headers }: FastifyRequest): { readonly id: number } | null {
  const [, id] = TOKEN.exec(headers.authorization ?? '') ?? []
  return id === undefined ? null : { id: Number(id) }
}

/** Adds the routes of the shop. */
export async function demoRoutes(app: FastifyInstance): Promise<void> {
  app.get('/search', async () => ({ results: [] }))
  app.get('/products/:id', async () => ({ name: 'a product' }))
  app.post('/orders', async (_request, reply) => reply.code(201).send({ ordered: true }))
  app.post('/login', async (_request, reply) => reply.code(401).send({ message: 'Wrong name or password' }))
}

/** Sends the app the requests of the story's present, every second, while it listens. */
export function sendDemoTraffic(app: FastifyInstance, startMs: number): void {
  let timer: NodeJS.Timeout | undefined
  app.addHook('onListen', async () => {
    timer = setInterval(() => sendSecond(app, startMs), SECOND_MS)
  })
  app.addHook('preClose', async () => clearInterval(timer))
}

function sendSecond(app: FastifyInstance, startMs: number): void {
  const nowMs = Date.now()
  for (const { address, user, method, path, perMinute } of TRAFFIC) {
    const mean = (perMinute(nowMs, nowMs - startMs) * SECOND_MS) / MINUTE_MS
    const headers = user === null ? {} : { authorization: `Bearer demo-${user}` }
    for (let requests = requestsWithin(mean, Math.random); requests > 0; requests--) {
      app.inject({ method, url: path, headers, remoteAddress: address }, () => undefined)
    }
  }
}
