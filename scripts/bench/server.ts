/**
 * The server of one row, in a process of its own: `server.js <row>`, with the backend as JSON in `BENCH_BACKEND`, since
 * the arguments of a process are public, and a URL may contain a password. It sends its port to the parent, answers
 * each message with what it has used so far, and closes when the parent disconnects.
 */
import Fastify from 'fastify'
import type { ServerUse } from './measure.js'
import { ROUTES, ROWS } from './rows.js'

const row = ROWS.find(({ name }) => name === process.argv[2])
if (row === undefined) throw new Error(`There is no row ${JSON.stringify(process.argv[2])}`)

const app = Fastify({ forceCloseConnections: true })
await row.register(app, JSON.parse(process.env.BENCH_BACKEND ?? ''))
for (const path of ROUTES) app.get(path, async () => ({ hello: 'world' }))
const origin = await app.listen({ port: 0, host: '127.0.0.1' })
process.on('message', async () => {
  const events = app.hasDecorator('smartRateLimit') ? app.smartRateLimit.events : undefined
  // The events that are still buffered are part of the work.
  await events?.flush()
  const { user, system } = process.cpuUsage()
  process.send?.({ microseconds: user + system, lostEvents: events?.stats().dropped ?? 0 } satisfies ServerUse)
})
process.once('disconnect', () => void app.close().finally(() => process.exit()))
process.send?.(origin)
