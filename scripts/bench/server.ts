/**
 * The server of one row, in a process of its own: `server.js <row> <schema> [database URL]`. It tells the parent its
 * port and closes when the parent hangs up.
 */
import Fastify from 'fastify'
import { ROWS } from './rows.js'

const [id, schema = '', databaseUrl] = process.argv.slice(2)
const row = ROWS.find((candidate) => candidate.id === id)
if (row === undefined) throw new Error(`There is no row ${JSON.stringify(id)}`)

const app = Fastify({ forceCloseConnections: true })
await row.register(app, databaseUrl, schema)
app.get('/', async () => ({ hello: 'world' }))
await app.listen({ port: 0, host: '127.0.0.1' })
const address = app.server.address()
process.send?.({ port: typeof address === 'object' ? address?.port : undefined })
process.once('disconnect', () => void app.close())
