/**
 * Measures the hook itself: nanoseconds per call with live requests of many clients, without HTTP, beside those of
 * @fastify/rate-limit.
 *
 *     node dist/scripts/bench/hook.js [rounds]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import rateLimit from '@fastify/rate-limit'
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
} from 'fastify'
import { rateLimitPlugin } from '../../src/index.js'

const CLIENTS = 256
const CALLS = 200_000
const BIG_RATE = '1000000000/h'

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => unknown

interface Subject {
  readonly name: string
  build(app: FastifyInstance): Promise<void>
}

function ours(name: string, middleware: object, rest: object = {}): Subject {
  return {
    name,
    async build(app) {
      await app.register(rateLimitPlugin, { ...rest, middleware: { backend: 'memory', ...middleware } })
    },
  }
}

const folder = mkdtempSync(join(tmpdir(), 'ratelimit-hook-'))
const prefixes = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`/section-${index}/`, BIG_RATE]))

const SUBJECTS: readonly Subject[] = [
  ours('memory', { defaultRate: BIG_RATE }),
  ours('memory, no headers', { defaultRate: BIG_RATE }, { headers: 'none' }),
  ours('memory, 20 prefixes', { defaultRate: BIG_RATE, rateLimits: prefixes }),
  {
    name: 'memory, 100 rules',
    async build(app) {
      await app.register(rateLimitPlugin, {
        database: `file:${join(folder, 'rules.db')}`,
        useDynamicRules: true,
        middleware: { backend: 'memory', defaultRate: BIG_RATE },
      })
      for (let index = 0; index < 100; index++) {
        await app.smartRateLimit.client.rateLimitRule.create({
          data: { name: `rule-${index}`, pathPattern: `^/section-${index}/`, rate: BIG_RATE },
        })
      }
    },
  },
  {
    name: '@fastify/rate-limit',
    async build(app) {
      await app.register(rateLimit, { max: 1_000_000_000, timeWindow: '1 hour' })
    },
  },
]

/** Returns requests and replies as Fastify creates them, one per client, and the hook that a subject added. */
async function prepare(subject: Subject) {
  const app = Fastify()
  const hooks: Hook[] = []
  const addHook = app.addHook.bind(app)
  Object.assign(app, {
    addHook(name: 'onRequest', hook: onRequestHookHandler) {
      if (name === 'onRequest') hooks.push(hook as unknown as Hook)
      return addHook(name, hook)
    },
  })
  const live: { request: FastifyRequest; reply: FastifyReply }[] = []
  await subject.build(app)
  app.addHook('onRoute', ({ onRequest }) => {
    for (const hook of [onRequest ?? []].flat()) hooks.push(hook as unknown as Hook)
  })
  app.get('/*', (request, reply) => {
    live.push({ request, reply })
    return reply.send('ok')
  })
  await app.ready()
  for (let client = 0; client < CLIENTS; client++) {
    await app.inject({ url: '/section-7/items', remoteAddress: `203.0.113.${client}` })
  }
  await app.smartRateLimit?.rules.active()
  const own = hooks.filter((hook) => hook.name !== 'collect')
  return { app, live, hook: own.at(subject.name.startsWith('@') ? -1 : 0) as Hook }
}

async function run(hook: Hook, live: readonly { request: FastifyRequest; reply: FastifyReply }[], calls: number) {
  let left = 0
  const done = () => {
    left--
  }
  const start = process.cpuUsage()
  for (let call = 0; call < calls; call++) {
    const { request, reply } = live[call % live.length] as (typeof live)[number]
    left++
    const result = hook.call(null as never, request, reply, done)
    if (result instanceof Promise) await result.then(done)
    else if (left > 0) await new Promise(setImmediate)
  }
  const { user, system } = process.cpuUsage(start)
  return ((user + system) * 1_000) / calls
}

const rounds = Number(process.argv[2] ?? 7)
const prepared = []
for (const subject of SUBJECTS) prepared.push({ subject, times: [] as number[], ...(await prepare(subject)) })
for (const { hook, live } of prepared) await run(hook, live, CALLS)
for (let round = 0; round < rounds; round++) {
  for (const each of prepared) each.times.push(await run(each.hook, each.live, CALLS))
}
for (const { subject, times } of prepared) {
  const sorted = times.toSorted((one, other) => one - other)
  console.log(
    `${subject.name.padEnd(24)} ${sorted[0]?.toFixed(0).padStart(6)} ns best ${sorted[sorted.length >> 1]?.toFixed(0).padStart(6)} ns median`,
  )
}
for (const { app } of prepared) await app.close()
rmSync(folder, { recursive: true })
