/**
 * `npm run bench:hook`: nanoseconds of the hook itself, with counters in memory and without HTTP, beside the peers'. It is
 * called directly with live requests: each call has copies of a request and a reply that Fastify made, since hooks mark
 * what they have decided. They are as fresh in the processor's cache as those of a request that has just arrived.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Command } from '@commander-js/extra-typings'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { rateLimitPlugin } from '../../src/index.js'
import { integer } from '../commands/support/option-values.js'
import { printLine } from '../commands/support/terminal.js'
import { CLIENT_HEADER } from './load.js'
import { median, messageFrom } from './measure.js'
import {
  CONSUMING,
  chooseRows,
  HEADERS_ALONE,
  OURS,
  ours,
  ROWS,
  type Row,
  withCondition,
  withGroups,
  withRules,
} from './rows.js'
import { type Backend, Backends } from './servers.js'

/** The number of live requests, each of another client, and so of the calls in a batch. */
const CALLS = 64
const PATH = '/things/7'

const skipPaths = Array.from({ length: 20 }, (_, index) => `/section-${index}/`)
const rows: readonly Row[] = [
  ...ROWS.filter(({ name }) => name === HEADERS_ALONE),
  ...ROWS.filter(({ name }) => name === `${OURS}, memory`),
  ours('memory, no headers', () => ({ headers: 'none', middleware: { backend: 'memory' } })),
  ours('memory, 20 exempt prefixes', () => ({ middleware: { backend: 'memory', skipPaths } })),
  ...CONSUMING,
  withRules(100, [PATH], 'a path that repeats'),
  withCondition("client.ip != '192.0.2.1'"),
  withCondition("!inList(client.ip, 'bench')"),
  withCondition("client.country == 'DE'"),
  withGroups('memory', { needs: 'sqlite' }),
  {
    name: `${OURS}, memory, consume() in a hook`,
    async register(app) {
      const limits = Fastify()
      const key = `header:${CLIENT_HEADER}` as const
      await limits.register(rateLimitPlugin, { middleware: { backend: 'memory', defaultRate: '1000000000/m', key } })
      const { consume } = limits.smartRateLimit
      // The first call loads it, for which the measurement would not wait.
      await consume({ method: 'GET', path: PATH, ip: '127.0.0.1' })
      app.addHook('onRequest', async ({ method, url, headers }) => {
        const client = headers[CLIENT_HEADER]
        await consume({ method, path: url, ip: '127.0.0.1', headers: { [CLIENT_HEADER]: client } })
      })
    },
  },
  ...ROWS.filter(({ name }) => name.endsWith(', memory') && !name.startsWith(OURS)),
]

const measured = rows.find(({ name }) => name === process.argv[2])
if (measured !== undefined) await sendNanoseconds(measured, Number(process.argv[3]))
else await printTable()

/** Has every row measured in processes of its own, in turn: one that has run another hook too is slower. */
async function printTable(): Promise<void> {
  const program = new Command('npm run bench:hook --')
    .option('--rounds <int>', 'how often every hook is measured', integer('rounds', 1, 100), 5)
    .option('--batches <int>', `how many batches of ${CALLS} calls a round has`, integer('batches', 1, 100_000), 500)
    .option('--rows <substring...>', 'parts of the names of the hooks to measure')
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
    .parse()
  const { rounds, batches, rows: parts = [''] } = program.opts()
  const chosen = chooseRows(rows, parts, program)
  const results = chosen.map(({ name }) => ({ name, nanoseconds: [] as number[] }))
  for (let round = 0; round < rounds; round++) {
    for (const { name, nanoseconds } of results) {
      nanoseconds.push(await messageFrom(fork(fileURLToPath(import.meta.url), [name, String(batches)])))
    }
  }
  for (const line of ['| Hook | ns | least |', '|---|--:|--:|']) printLine(line)
  for (const { name, nanoseconds } of results) {
    printLine(`| ${name} | ${median(nanoseconds).toFixed(0)} | ${Math.min(...nanoseconds).toFixed(0)} |`)
  }
}

/** Sends the parent the median of a hook's batches. */
async function sendNanoseconds(row: Row, batches: number): Promise<void> {
  const backends = new Backends()
  try {
    await backends.with(row, async (backend) => {
      const { app, call } = await openHooks(row, backend)
      const nanoseconds: number[] = []
      for (let batch = 0; batch < batches; batch++) nanoseconds.push(await call())
      process.send?.(median(nanoseconds))
      await app.close()
    })
  } finally {
    await backends.close()
  }
}

/** Creates an app with requests that wait before the limiter, and a function that calls the limiter's hooks for them. */
async function openHooks({ prepare, register }: Row, backend: Backend) {
  await prepare?.(backend)
  // A route has one list of hooks then, not another one for HEAD.
  const app = Fastify({ exposeHeadRoutes: false })
  const live: (readonly [FastifyRequest, FastifyReply])[] = []
  app.addHook('onRequest', (...called) => void live.push([called[0], called[1]]))
  const hooks = collectHooks(app)
  await register(app, backend)
  // The hooks run after those of plugins: @fastify/rate-limit adds its hook to each route.
  app.addHook('onRoute', ({ onRequest = [] }) => void hooks.push(...[onRequest].flat()))
  app.get(PATH, async () => 'passed')
  await app.ready()
  for (let client = 0; client < CALLS; client++) {
    const from = { remoteAddress: `127.0.0.${client}`, headers: { [CLIENT_HEADER]: `client-${client}` } }
    app.inject({ url: PATH, ...from }, () => undefined)
  }
  while (live.length < CALLS) await new Promise(setImmediate)

  async function call(): Promise<number> {
    const calls = live.map(([request, reply]) => [copyFields(request), copyFields(reply)] as const)
    let passed = 0
    const pass = () => void passed++
    const start = process.hrtime.bigint()
    for (const [request, reply] of calls) {
      for (const hook of hooks) {
        const late: unknown = hook.call(app, request, reply, pass)
        if (late instanceof Promise) late.then(pass)
      }
    }
    // The hooks here wait for no more than promises.
    while (passed < CALLS * hooks.length) await undefined
    return Number(process.hrtime.bigint() - start) / CALLS
  }
  return { app, call }
}

/** Returns the list to which all `onRequest` hooks are added that the app gets from now on. */
function collectHooks(app: FastifyInstance) {
  // biome-ignore lint/complexity/noBannedTypes: Fastify has a type for hooks with a callback, and one for async ones.
  const hooks: Function[] = []
  const { addHook } = app
  app.addHook = function noteHook(this: FastifyInstance, name: string, hook: unknown) {
    if (name === 'onRequest' && typeof hook === 'function') hooks.push(hook)
    return Reflect.apply(addHook, this, [name, hook])
  }
  return hooks
}

/** Copies the fields of a request or a reply. */
function copyFields<Live extends object>(live: Live): Live {
  const copy: Live = Object.assign(Object.create(Object.getPrototypeOf(live)), live)
  for (const field of Reflect.ownKeys(live)) {
    const value: unknown = Reflect.get(live, field)
    // A reply collects its headers in an object of its own.
    const isEmpty = typeof value === 'object' && value !== null && Reflect.ownKeys(value).length === 0
    if (isEmpty && Object.getPrototypeOf(value) === Object.prototype) Reflect.set(copy, field, {})
  }
  return copy
}
