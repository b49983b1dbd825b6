/**
 * `npm run bench:checks`: the CPU time of checks over HTTP, beside a bare Fastify route that reads and answers as much JSON,
 * and one that asks rate-limiter-flexible. Each server is a process of its own; they are loaded in turn.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import Fastify, { type FastifyInstance } from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { checkPlugin } from '../../src/api.js'
import { type ConsumeOptions, rateLimitPlugin } from '../../src/index.js'
import { printLine } from '../commands/support/terminal.js'
import { CLIENT_HEADER, runLoad } from './load.js'
import { median, messageFrom } from './measure.js'

const PATH = '/check'
const ROUNDS = 5
const SECONDS = 2
const MIDDLEWARE = { backend: 'memory', defaultRate: '1000000000/m', key: `header:${CLIENT_HEADER}` } as const

function requestOf(client: number): ConsumeOptions {
  return { method: 'GET', path: '/things/7', ip: '203.0.113.7', headers: { [CLIENT_HEADER]: `client-${client}` } }
}

interface Measured {
  readonly name: string
  readonly batch: boolean
  register(app: FastifyInstance): Promise<void>
}

const BARE: Measured = {
  name: 'bare Fastify, as much JSON',
  batch: false,
  async register(app) {
    const limits = Fastify()
    await limits.register(rateLimitPlugin, { middleware: MIDDLEWARE })
    const answer = await limits.smartRateLimit.consume(requestOf(0))
    app.post(PATH, async () => answer)
  },
}
const CHECKS: Omit<Measured, 'name' | 'batch'> = {
  async register(app) {
    await app.register(rateLimitPlugin, { middleware: MIDDLEWARE })
    await app.register(checkPlugin, { prefix: PATH, tokens: false, authorize: () => 'checker' })
  },
}
const rows: readonly [Measured, Measured, ...Measured[]] = [
  BARE,
  { ...CHECKS, name: 'a check', batch: false },
  { ...CHECKS, name: 'a batch of 100', batch: true },
  {
    name: 'rate-limiter-flexible in a route',
    batch: false,
    async register(app) {
      const limiter = new RateLimiterMemory({ points: 1_000_000_000, duration: 60 })
      app.post<{ Body: ConsumeOptions }>(PATH, async ({ body }) => {
        return limiter.consume(String(body.headers?.[CLIENT_HEADER]))
      })
    },
  },
]

const served = rows.find(({ name }) => name === process.argv[2])
if (served === undefined) await printTable()
else await serve(served)

async function serve({ register }: Measured): Promise<void> {
  const app = Fastify({ forceCloseConnections: true })
  await register(app)
  const origin = await app.listen({ port: 0, host: '127.0.0.1' })
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send?.(user + system)
  })
  process.once('disconnect', () => void app.close().finally(() => process.exit()))
  process.send?.(origin)
}

async function printTable(): Promise<void> {
  const servers = await Promise.all(
    rows.map(async (row) => {
      const server = fork(fileURLToPath(import.meta.url), [row.name])
      return {
        row,
        server,
        origin: String(await messageFrom(server)),
        microseconds: [] as number[],
        p99: [] as number[],
      }
    }),
  )
  for (let round = 0; round <= ROUNDS; round++) {
    for (const { row, server, origin, microseconds, p99 } of servers) {
      const use = async () => {
        server.send('use')
        return Number(await messageFrom(server))
      }
      const before = await use()
      const load = await runLoad([origin], [PATH], SECONDS, new AbortController().signal, (hostname, target, client) =>
        postOf(hostname, target, row.batch ? Array.from({ length: 100 }, (_, at) => requestOf(at)) : requestOf(client)),
      )
      // The first round warms up.
      if (round === 0) continue
      microseconds.push(((await use()) - before) / load.answers)
      p99.push(load.microseconds.percentile(99) / 1_000)
      if (load.refusals > 0)
        throw new Error(`${row.name} answers ${load.refusals} requests with another status than 200`)
    }
  }
  const least = (index: number) => median(servers[index]?.microseconds ?? [])
  for (const line of ['| Answers | server µs | of bare | p99 |', '|---|--:|--:|--:|']) printLine(line)
  for (const { row, microseconds, p99 } of servers) {
    const [cpu, slow] = [median(microseconds), median(p99)]
    printLine(`| ${row.name} | ${cpu.toFixed(1)} | ${(cpu / least(0)).toFixed(2)} | ${slow.toFixed(1)} ms |`)
  }
  printLine(
    `A check takes ${(least(1) / least(0)).toFixed(2)} of bare (at most 2), a batch ${(least(2) / least(1)).toFixed(2)} of a check (at most 5).`,
  )
  for (const { server } of servers) {
    server.disconnect()
    await once(server, 'exit')
  }
}

function postOf(hostname: string, target: string, json: unknown): string {
  const body = JSON.stringify(json)
  return `POST ${target} HTTP/1.1\r\nhost: ${hostname}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}
