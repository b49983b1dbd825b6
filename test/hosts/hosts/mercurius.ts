/** A GraphQL server: every query is one request, and may cost more than one. */
import assert from 'node:assert/strict'
import type { Host } from '../host.js'

export const host: Host = {
  packages: ['fastify', 'mercurius', 'graphql@16'],
  files: {
    'app.js': `
      import Fastify from 'fastify'
      import { rateLimitPlugin } from 'fastify-smart-ratelimit'
      import mercurius from 'mercurius'
      const app = Fastify()
      await app.register(rateLimitPlugin, { middleware: { backend: 'memory', defaultRate: '10/h' } })
      await app.register(mercurius, {
        schema: 'type Query { hello: String, left: Int }',
        resolvers: {
          Query: {
            hello: () => 'world',
            left: async (_parent, _args, { reply }) => (await app.smartRateLimit.peek(reply.request)).remaining,
          },
        },
      })
      console.log(await app.listen({ port: 0, host: '127.0.0.1' }))
    `,
  },
  async check({ start }) {
    const server = await start('node', ['app.js'])
    const query = (text: string) =>
      server.request('/graphql', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ query: text }),
      })
    const first = await query('{ hello left }')
    assert.equal(first.headers.get('x-ratelimit-remaining'), '9')
    assert.deepEqual(await first.json(), { data: { hello: 'world', left: 9 } })
    assert.deepEqual(await server.statuses(9, '/graphql?query=%7Bhello%7D'), Array(9).fill(200))
    const refused = await query('{ hello }')
    assert.equal(refused.status, 429)
    // As GraphQL has it: mercurius handles the errors of its route.
    const [{ message }] = Object(await refused.json()).errors
    assert.match(message, /Rate limit exceeded, retry in/)
  },
}
