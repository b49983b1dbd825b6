/**
 * A Redis Cluster of this process's own: three servers on free ports, without replicas. While one of them is away the
 * others go on.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { eventually } from './eventually.js'
import { longLeftOut } from './long.js'
import { REDIS_SERVER } from './own-redis.js'
import { closedPort } from './tcp-proxy.js'

const NODES = 3
const SLOTS = 16_384

/**
 * The reason why there is no cluster, or `false`: starting one takes seconds. Where continuous integration runs long
 * tests, its tests fail without a server.
 */
export const clusterMissing =
  longLeftOut ||
  (process.env.CI === undefined && REDIS_SERVER === undefined ? 'no redis-server to start a cluster with' : false)

export interface TestCluster {
  /** The first node, as a setting. */
  readonly url: string
  /** Ends the first node, or freezes it, or lets it go on. */
  signalFirst(signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void
  stop(): Promise<void>
}

export async function startCluster(): Promise<TestCluster> {
  const folder = await mkdtemp(join(tmpdir(), 'ratelimit-cluster-'))
  const servers: ChildProcess[] = []
  const kill = () => {
    for (const server of servers) server.kill('SIGKILL')
  }
  const killed = () => {
    kill()
    process.exit(1)
  }
  process.once('exit', kill).once('SIGTERM', killed)
  async function stop(): Promise<void> {
    process.off('exit', kill).off('SIGTERM', killed)
    kill()
    await eventually('the servers of the cluster are gone', () =>
      servers.every(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null),
    )
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const nodes = await Promise.all(
      Array.from({ length: NODES }, async (_, index) => {
        const [port, busPort] = [await closedPort(), await closedPort()]
        servers.push(startServer(folder, index, port, busPort))
        return { port, busPort }
      }),
    )
    await joinNodes(nodes)
    return {
      url: `redis://127.0.0.1:${nodes[0]?.port}?cluster=true`,
      signalFirst: (signal) => void servers[0]?.kill(signal),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function startServer(folder: string, index: number, port: number, busPort: number): ChildProcess {
  if (REDIS_SERVER === undefined) throw new Error('There is no redis-server to start a cluster with')
  const options = {
    port,
    'cluster-port': busPort,
    bind: '127.0.0.1',
    dir: folder,
    'cluster-enabled': 'yes',
    'cluster-require-full-coverage': 'no',
    'cluster-config-file': `nodes-${index}.conf`,
    save: '',
    appendonly: 'no',
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  return spawn(REDIS_SERVER, args, { stdio: 'ignore' })
}

/** Gives each node its part of the slots, and waits until all know all. */
async function joinNodes(nodes: readonly { port: number; busPort: number }[]): Promise<void> {
  const clients = nodes.map(({ port }) => new Redis(port, '127.0.0.1', { retryStrategy: () => 50 }))
  for (const client of clients) client.on('error', () => undefined)
  try {
    const share = Math.ceil(SLOTS / NODES)
    for (const [index, client] of clients.entries()) {
      await client.cluster('SET-CONFIG-EPOCH', index + 1)
      await client.call('CLUSTER', 'ADDSLOTSRANGE', index * share, Math.min(SLOTS, (index + 1) * share) - 1)
      for (const { port, busPort } of nodes.slice(0, index)) {
        await client.call('CLUSTER', 'MEET', '127.0.0.1', port, busPort)
      }
    }
    await eventually(
      'the cluster is complete',
      async () => {
        const infos = await Promise.all(clients.map((client) => client.cluster('INFO')))
        return infos.every((info) => info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${NODES}`))
      },
      20_000,
    )
  } finally {
    for (const client of clients) client.disconnect()
  }
}
