/**
 * A server that keeps usage without an event log, for tests that disturb it.
 *
 *     node --import tsx usage-load.ts <options of the plugin as JSON>
 *
 * Charges clients all the time, and prints a line of JSON every some milliseconds: what each was charged, by how many
 * requests, and the number of sums in the spool. Stops charging when its input ends, and ends when all is written.
 */
import { setImmediate as turn } from 'node:timers/promises'
import Fastify from 'fastify'
import { pluginParts } from '../../src/plugin/parts.js'
import { rateLimitPlugin } from '../../src/plugin/plugin.js'

/** The amount and the requests of each client. */
export type Charged = Record<string, [amount: number, requests: number]>

export interface UsageLine {
  readonly charged: Charged
  readonly spooled: number
}

const PRINT_MS = 20
/** Few clients, so that processes add to the same sums; in an order of their own. */
const CLIENTS = Array.from({ length: 40 }, (_, index) => `user:${index}`).sort(() => Math.random() - 0.5)
/** Charges of one request. */
const CHARGES = 5
const [options = ''] = process.argv.slice(2)

const app = Fastify({ pluginTimeout: 60_000 })
await app.register(rateLimitPlugin, { ...JSON.parse(options), usage: ['tokens'], middleware: { backend: 'memory' } })
await app.ready()
const { usage } = pluginParts(app)
if (usage === undefined) throw new Error('The app keeps no usage')

const charged: Charged = {}
const print = () => console.log(JSON.stringify({ charged, spooled: usage.stats().spooled } satisfies UsageLine))
let goesOn = true
const printing = setInterval(print, PRINT_MS)
process.stdin.resume().once('end', () => {
  goesOn = false
})
for (let request = 0; goesOn; request++) {
  const client = CLIENTS[request % CLIENTS.length] ?? ''
  const sums = charged[client] ?? [0, 0]
  charged[client] = sums
  for (let charge = 0; charge < CHARGES; charge++) {
    const amount = Math.floor(Math.random() * 2_000)
    const atMs = Date.now()
    usage.record({ client, unit: 'tokens', policy: 'llm', amount, atMs, previousMs: charge === 0 ? undefined : atMs })
    sums[0] += amount
  }
  sums[1]++
  await turn()
}
clearInterval(printing)
print()
// What cannot be written within closing would be lost.
while (usage.stats().buffered > 0) await usage.flush()
await app.close()
