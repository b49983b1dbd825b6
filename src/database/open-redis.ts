/** Opens this package's own Redis clients. Only this module loads ioredis, an optional peer. */
import type { RedisOptions } from 'ioredis'
import { InvalidSettingError, unloadablePeer } from '../ground/errors.js'
import { parseRedisUrl, type RedisAddress, type RedisClient } from './redis-client.js'

const CONNECT_TIMEOUT_MS = 5_000
/** A connection that does not answer a command within this time counts as dead, and is closed. */
const SILENCE_TIMEOUT_MS = 5_000
/** The longest pause between two attempts to reconnect, which never end. */
const MAX_RETRY_DELAY_MS = 2_000

/**
 * Creates a client that connects with its first command. It queues nothing: a command that cannot be sent at once
 * fails, and so does one that a broken connection has not answered (sending it again might count it twice).
 *
 * @throws InvalidSettingError when ioredis is not installed
 */
export async function openRedis(url: string): Promise<RedisClient & { disconnect(): void }> {
  const { Redis, Cluster } = await importRedis()
  const address = parseRedisUrl(url)
  return address.isCluster
    ? new Cluster([...address.urls], {
        lazyConnect: true,
        clusterRetryStrategy: retryDelayMs,
        slotsRefreshTimeout: CONNECT_TIMEOUT_MS,
        // Certificates are for names, so names must not be resolved before.
        ...(url.startsWith('rediss:') ? { dnsLookup: (name, done) => done(null, name) } : {}),
        redisOptions: { ...connectionOptions, ...credentialsFor(address) },
      })
    : new Redis(address.urls[0], {
        ...connectionOptions,
        lazyConnect: true,
        enableOfflineQueue: false,
        retryStrategy: retryDelayMs,
        // A server that became a replica cannot count: its name may lead to another one now. Redis 6 says so within its text.
        reconnectOnError: ({ message }) => message.includes('READONLY'),
      })
}

const connectionOptions = {
  connectionName: 'fastify-smart-ratelimit',
  connectTimeout: CONNECT_TIMEOUT_MS,
  socketTimeout: SILENCE_TIMEOUT_MS,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
} as const satisfies RedisOptions

function retryDelayMs(attempt: number): number {
  return Math.min(attempt * 100, MAX_RETRY_DELAY_MS)
}

/** Returns the credentials of the first URL, for the nodes that the cluster itself names. */
function credentialsFor({ urls: [first] }: RedisAddress) {
  const { protocol, username, password } = new URL(first)
  return {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  }
}

async function importRedis() {
  const { Redis, Cluster } = await import('ioredis').catch((error: unknown) => {
    throw unloadablePeer({ user: 'Setting "redis" with a URL', name: 'ioredis', since: '5.3' }, error)
  })
  if (typeof Redis !== 'function') {
    throw new InvalidSettingError(
      'Setting "redis" with a URL needs the package ioredis, 5.3 or later: run "npm install ioredis" (an older one is installed)',
    )
  }
  return { Redis, Cluster }
}
