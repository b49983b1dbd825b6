import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Redis } from 'ioredis'
import { atEnd } from './at-end.js'
import { eventually } from './eventually.js'
import { closedPort } from './tcp-proxy.js'

export const REDIS_SERVER = ['redis-server', 'valkey-server'].find(
  (name) => spawnSync(name, ['--version']).status === 0,
)

/**
 * The reason why no server can be started here, or `false`. Continuous integration never leaves it out: there its tests fail.
 */
export const ownRedisMissing = process.env.CI === undefined && REDIS_SERVER === undefined ? 'no redis-server' : false

/** A Redis server of the test's own, whose settings and users it may change, and which it may stop. */
export interface OwnRedis {
  readonly url: URL
  readonly client: Redis
  /** Sends `SIGSTOP`, after which it answers nothing, or `SIGCONT`, after which it answers what it was asked meanwhile. */
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
}

/** Starts a server on a free port; the end of the test removes it. */
export async function startOwnRedis(t: TestContext): Promise<OwnRedis> {
  if (REDIS_SERVER === undefined) throw new Error('There is no redis-server')
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-redis-'))
  const port = await closedPort()
  const options = { port, bind: '127.0.0.1', dir: folder, save: '', appendonly: 'no' }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const server = spawn(REDIS_SERVER, args, { stdio: 'ignore' })
  const client = new Redis(port, '127.0.0.1', { retryStrategy: () => 50 })
  client.on('error', () => undefined)
  atEnd(t, async () => {
    client.disconnect()
    const ended = once(server, 'exit')
    server.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  })
  await eventually('the server answers', () => client.status === 'ready')
  return { url: new URL(`redis://127.0.0.1:${port}`), client, signal: (signal) => void server.kill(signal) }
}
