/**
 * A server that logs events, for tests that kill it.
 *
 *     node --import tsx event-load.ts <options of the plugin as JSON> <requests at once> [<address> …]
 *
 * Prints a line of JSON every some milliseconds: how many requests were answered, and the figures of the event log. Every
 * event of an address has a count of its own. Ends when its input ends.
 */
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import type { EventLogStats } from '../../src/index.js'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'

export interface LoadLine extends EventLogStats {
  readonly answered: number
}

const PRINT_MS = 20
const [options = '', atOnce, ...addresses] = process.argv.slice(2)

const app = Fastify({ pluginTimeout: 60_000 })
await app.register(rateLimitPlugin, {
  logEvents: true,
  middleware: { backend: 'memory', defaultRate: '100000000/d' },
  ...JSON.parse(options),
})
app.get('/', async () => 'ok')
await app.ready()

let answered = 0
let goesOn = true
async function ask(): Promise<void> {
  while (goesOn) {
    await app.inject({ url: '/', remoteAddress: addresses[answered % addresses.length] ?? '127.0.0.1' })
    answered++
    // An injected request alone would let nothing else run.
    await turn()
  }
}
const asking = Array.from({ length: Number(atOnce) }, ask)
const printing = setInterval(() => {
  console.log(JSON.stringify({ answered, ...app.smartRateLimit.events.stats() } satisfies LoadLine))
}, PRINT_MS)

process.stdin.resume().once('end', async () => {
  goesOn = false
  clearInterval(printing)
  await Promise.all(asking)
  await app.close()
})
