/**
 * One of several servers that refuse the same client at once: `node --import tsx banning-server.ts <url> <schema> <now>`.
 * It says `ready`. For each line on standard input it answers so many requests at once, and prints their statuses as
 * JSON. It ends with standard input.
 */
import { createInterface } from 'node:readline'
import Fastify from 'fastify'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'
import { fakeClock } from './clock.js'

const [database, schema, now] = process.argv.slice(2)
const app = Fastify({ pluginTimeout: 60_000 })
await app.register(rateLimitPlugin, {
  database,
  schema,
  clock: fakeClock(Number(now)),
  useDynamicRules: true,
  storeTimeoutMs: 20_000,
})
app.get('/sign-in', async () => 'ok')
await app.ready()
console.log('ready')
for await (const times of createInterface(process.stdin)) {
  const answers = await Promise.all(Array.from({ length: Number(times) }, () => app.inject('/sign-in')))
  console.log(JSON.stringify(answers.map(({ statusCode }) => statusCode)))
}
await app.close()
