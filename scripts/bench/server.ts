/**
 * The server of one row, in a process of its own: `server.js <row>`, with the place as JSON in `BENCH_PLACE`, since
 * the arguments of a process are public, and a URL may contain a password. It sends its port to the parent, answers
 * each message with the state of its event log, and closes when the parent disconnects.
 */
import Fastify from 'fastify'
import { FULL_PATH, THINGS_PATH } from './row.js'
import { ROWS } from './rows.js'

const id = process.argv[2]
const row = ROWS.find((candidate) => candidate.id === id)
if (row === undefined) throw new Error(`There is no row ${JSON.stringify(id)}`)

const app = Fastify({ forceCloseConnections: true })
await row.register(app, JSON.parse(process.env.BENCH_PLACE ?? ''))
for (const path of ['/', FULL_PATH, `${THINGS_PATH}:id`]) app.get(path, async () => ({ hello: 'world' }))
await app.listen({ port: 0, host: '127.0.0.1' })
const address = app.server.address()
process.on('message', () => process.send?.({ events: app.smartRateLimit.events.stats() }))
process.once('disconnect', () => void app.close().finally(() => process.exit()))
process.send?.({ port: typeof address === 'object' ? address?.port : undefined })
