import { FULL_PATH, MOSTLY_FULL, type Row } from './row.js'

export const BARE_ROW: Row = {
  id: 'bare',
  title: 'bare Fastify',
  bare: 'bare',
  register: async () => undefined,
}

const REFUSAL = {
  statusCode: 429,
  code: 'FST_RATE_LIMIT_EXCEEDED',
  error: 'Too Many Requests',
  message: 'Rate limit exceeded, retry in 43200 seconds',
}
const REFUSAL_HEADERS = {
  'x-ratelimit-limit': 1,
  'x-ratelimit-remaining': 0,
  'x-ratelimit-reset': 43_200,
  'retry-after': 43_200,
}

/** Refuses without a limiter, in the same words: the lowest possible cost. */
export const BARE_REFUSING_ROW: Row = {
  id: 'bare-refused',
  title: 'bare Fastify, answering 429 to 90 %',
  bare: 'bare-refused',
  paths: MOSTLY_FULL,
  async register(app) {
    app.addHook('onRequest', (request, reply, done) => {
      if (request.url === FULL_PATH) void reply.code(429).headers(REFUSAL_HEADERS).send(REFUSAL)
      else done()
    })
  },
}
