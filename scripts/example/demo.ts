import type { FastifyInstance, FastifyRequest } from 'fastify'
import { type Database, databaseFor } from '../../src/database/database.js'
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/ground/time/clock.js'
import { asActor, type RateLimitClient } from '../../src/index.js'
import { writeDemoLog } from './demo-log.js'
import {
  ASSISTANT_TRAFFIC,
  DEMO_RULES,
  INCIDENT_MS,
  RULE_BEFORE,
  requestsWithin,
  STORY_DAYS,
  TRAFFIC,
} from './demo-story.js'
import { tokensOfAnswer, writeDemoUsage } from './demo-usage.js'

/** Adds the rules and the past of the story to a new database, and its present to an app that does not listen yet. */
export async function tellDemoStory(app: FastifyInstance, defaultRate: string): Promise<void> {
  const startMs = Date.now()
  await tellDemoPast(app, defaultRate, startMs)
  sendDemoTraffic(app, startMs)
}

/** @param startMs the end of the past */
export async function tellDemoPast(app: FastifyInstance, defaultRate: string, startMs: number): Promise<void> {
  const { client } = app.smartRateLimit
  const database = databaseFor(client)
  await writeDemoRules(client, database, startMs)
  await writeDemoLog(database, defaultRate, startMs)
  await writeDemoUsage(database, startMs)
}

/** Writes the rules as if they were a week old, and the edit that began an incident. */
async function writeDemoRules({ rateLimitRule }: RateLimitClient, database: Database, startMs: number): Promise<void> {
  for (const rule of DEMO_RULES) await rateLimitRule.create({ data: { ...rule, ...RULE_BEFORE[rule.name] } })
  for (const { name, rate } of DEMO_RULES.filter(({ name }) => name in RULE_BEFORE)) {
    await asActor('grace', () => rateLimitRule.update({ where: { name }, data: { rate } }))
  }
  const { dialect } = database
  await database.execute(
    `UPDATE ${dialect.table('rate_limit_change')} SET changed_at = CASE action
       WHEN 'create' THEN ${dialect.fromMs('$1')} ELSE ${dialect.fromMs('$2')} END`,
    [startMs - STORY_DAYS * DAY_MS, startMs - INCIDENT_MS - MINUTE_MS],
  )
}

const TOKEN = /^Bearer demo-(\d+)$/

/** Returns the customer whose token a request has. The tokens are no secrets: the customers are invented. */
export function demoUser({ headers }: FastifyRequest): { readonly id: number } | null {
  const [, id] = TOKEN.exec(headers.authorization ?? '') ?? []
  return id === undefined ? null : { id: Number(id) }
}

/** Adds the routes of the shop. */
export async function demoRoutes(app: FastifyInstance): Promise<void> {
  app.get('/search', async () => ({ results: [] }))
  app.get('/products/:id', async () => ({ name: 'a product' }))
  app.post('/orders', async (_request, reply) => reply.code(201).send({ ordered: true }))
  app.post('/assistant', async (request) => {
    const { tokens: left } = await app.smartRateLimit.charge(request, { tokens: tokensOfAnswer(Math.random) })
    return { answer: 'It is in stock.', left }
  })
  app.post('/login', async (_request, reply) => reply.code(401).send({ message: 'Wrong name or password' }))
}

/** Sends the app the requests of the story's present, every second, while it listens. */
function sendDemoTraffic(app: FastifyInstance, startMs: number): void {
  let timer: NodeJS.Timeout | undefined
  app.addHook('onListen', async () => {
    timer = setInterval(() => sendSecond(app, startMs), SECOND_MS)
  })
  app.addHook('preClose', async () => clearInterval(timer))
}

function sendSecond(app: FastifyInstance, startMs: number): void {
  const nowMs = Date.now()
  for (const { address, user, method, path, perMinute } of [...TRAFFIC, ...ASSISTANT_TRAFFIC]) {
    const mean = (perMinute(nowMs, nowMs - startMs) * SECOND_MS) / MINUTE_MS
    const headers = user === null ? {} : { authorization: `Bearer demo-${user}` }
    for (let requests = requestsWithin(mean, Math.random); requests > 0; requests--) {
      app.inject({ method, url: path, headers, remoteAddress: address }, () => undefined)
    }
  }
}
