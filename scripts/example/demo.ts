import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { databaseFor } from '../../src/db/database.js'
import { foldAll } from '../../src/rollups/catch-up.js'
import { writeDemoLog } from './demo-log.js'
import { DEMO_RULES } from './demo-story.js'
import { sendDemoTraffic } from './demo-traffic.js'

/** A temporary database for invented events, so that they are never among real ones. */
export interface DemoDatabase {
  readonly url: string
  remove(): Promise<void>
}

export async function createDemoDatabase(): Promise<DemoDatabase> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-demo-'))
  return {
    url: `file:${join(folder, 'ratelimit.db')}`,
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}

/** Adds the rules and the past of the story to a new database, and its present to an app that does not listen yet. */
export async function tellDemoStory(app: FastifyInstance, defaultRate: string): Promise<void> {
  const startMs = Date.now()
  await tellDemoPast(app, defaultRate, startMs)
  sendDemoTraffic(app, startMs)
}

/** @param startMs the end of the past */
export async function tellDemoPast(app: FastifyInstance, defaultRate: string, startMs: number): Promise<void> {
  const { client } = app.smartRateLimit
  for (const data of DEMO_RULES) await client.rateLimitRule.create({ data })
  await writeDemoLog(databaseFor(client), defaultRate, startMs)
  await foldAll(databaseFor(client), startMs)
}
