import { errorMessage, InvalidSettingError } from '../errors.js'
import { quotedScheme, serverUrl } from '../readable-url.js'

/** The members of a Redis client that this package uses; a `Redis` and a `Cluster` of ioredis have them all. */
export interface RedisClient {
  readonly status: string
  readonly isCluster: boolean
  connect(): Promise<unknown>
  evalsha(sha: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  eval(script: string, keyCount: number, ...keysAndArguments: (string | number)[]): Promise<unknown>
  get(key: string): Promise<unknown>
  incr(key: string): Promise<unknown>
  del(key: string): Promise<unknown>
  on(event: string, listener: (...values: unknown[]) => void): unknown
  off(event: string, listener: (...values: unknown[]) => void): unknown
}

const METHODS = [
  'connect',
  'evalsha',
  'eval',
  'get',
  'incr',
  'del',
  'on',
  'off',
] as const satisfies (keyof RedisClient)[]

/**
 * @param setting the name of the setting that holds it
 * @throws InvalidSettingError when a URL is not of Redis, or an object is not a client of ioredis
 */
export function validateRedis(redis: string | object, setting = 'redis'): void {
  if (typeof redis === 'string') parseRedisUrl(redis, setting)
  else if (!('status' in redis) || METHODS.some((name) => typeof Reflect.get(redis, name) !== 'function')) {
    throw new InvalidSettingError(
      `Setting "${setting}" is an object that is no client of ioredis: give a URL such as redis://127.0.0.1:6379, or a Redis or Cluster of ioredis`,
    )
  }
}

/** Returns the clients of the nodes of a cluster that have keys, or the client of the one server. */
export function keyNodesOf(client: RedisClient): readonly object[] {
  return client.isCluster && hasNodes(client) ? client.nodes('master') : [client]
}

/**
 * Returns the node of a cluster that has the keys with a hash tag; an empty text where the client does not say so.
 *
 * @param text the tag, up to its first closing brace
 */
export function nodeForTag(client: RedisClient, text: string): string {
  const slots: unknown = Reflect.get(client, 'slots')
  const nodes: unknown = Array.isArray(slots) ? slots[hashSlot(text)] : undefined
  const master: unknown = Array.isArray(nodes) ? nodes[0] : undefined
  return typeof master === 'string' ? master : ''
}

/** Returns the slot of a hash tag: CRC-16/XMODEM of its bytes, modulo the number of slots. */
function hashSlot(text: string): number {
  const end = text.indexOf('}')
  let crc = 0
  for (const byte of Buffer.from(end === -1 ? text : text.slice(0, end))) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = ((crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021) & 0xffff
  }
  return crc % 16_384
}

function hasNodes(client: object): client is { nodes(role: 'master'): object[] } {
  return typeof Reflect.get(client, 'nodes') === 'function'
}

/** The states of a client before it is ready or fails. */
const STARTING: ReadonlySet<string> = new Set(['wait', 'connecting', 'connect'])

/** A connection to Redis: the host's client, or an own one, which is opened when it is first needed. */
export class RedisConnection {
  readonly #given: string | RedisClient
  /** The client, once it has been created. */
  opened: RedisClient | undefined
  #opened: Promise<RedisClient> | undefined
  #disconnect: () => void = () => undefined
  #started: Promise<void> | undefined
  #lastError: unknown
  #closed = false

  /** @throws InvalidSettingError as `validateRedis` does */
  constructor(redis: string | RedisClient) {
    validateRedis(redis)
    this.#given = redis
    this.opened = typeof redis === 'string' ? undefined : redis
  }

  /**
   * Creates the client without connecting.
   *
   * @throws InvalidSettingError when ioredis is needed and not installed
   */
  load(): Promise<RedisClient> {
    this.#opened ??= this.#open()
    return this.#opened
  }

  /**
   * Returns the client when it is ready.
   *
   * @throws InvalidSettingError when ioredis is needed and not installed
   * @throws Error at once while Redis cannot be reached
   */
  async client(): Promise<RedisClient> {
    const client = await this.load()
    if (!this.#closed && STARTING.has(client.status)) {
      this.#started ??= started(client).finally(() => {
        this.#started = undefined
      })
      await this.#started
    }
    if (this.#closed || client.status !== 'ready') throw this.#unreachable(client)
    return client
  }

  /** Resolves when Redis is reachable, or the connection is closed. */
  async ready(): Promise<void> {
    try {
      await this.client()
    } catch (error) {
      if (!this.#closed) throw error
    }
  }

  /** Runs commands. Their errors keep the message only: ioredis adds the sent command, passwords included. */
  async explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw new Error(`Redis: ${errorMessage(error)}`)
    }
  }

  /** Disconnects an own client, whether Redis answers or not. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#opened?.catch(() => undefined)
    this.#disconnect()
    this.#disconnect = () => undefined
  }

  async #open(): Promise<RedisClient> {
    if (typeof this.#given !== 'string') return this.#given
    // Imported here, so that only hosts that use ioredis need it.
    const { openRedis } = await import('./open-redis.js')
    const client = await openRedis(this.#given)
    this.opened = client
    client.on('error', (error) => {
      this.#lastError = error
    })
    this.#disconnect = () => client.disconnect()
    return client
  }

  #unreachable({ status }: RedisClient): Error {
    const why = this.#lastError === undefined ? '' : `: ${errorMessage(this.#lastError)}`
    return new Error(`Redis is not connected (${this.#closed ? 'closed' : status})${why}`)
  }
}

/** Resolves when a client that is starting is ready, or this attempt has failed. */
function started(client: RedisClient): Promise<void> {
  return new Promise((resolve) => {
    const events = ['ready', 'close', 'end']
    const settle = () => {
      for (const event of events) client.off(event, settle)
      resolve()
    }
    for (const event of events) client.on(event, settle)
    if (client.status === 'wait') client.connect().catch(settle)
  })
}

/** The address of a Redis server or cluster. */
export interface RedisAddress {
  /** The seed nodes of a cluster, or the one server. */
  readonly urls: readonly [string, ...string[]]
  readonly isCluster: boolean
}

const REDIS_URL = /^rediss?:\/\/[^/]/
/** Matches a comma between two URLs, not one inside a password. */
const BETWEEN_URLS = /,\s*(?=rediss?:\/\/)/

/**
 * Parses `redis://user:password@host:6379/0` (`rediss://` with TLS). Several separated by commas, or one with
 * `?cluster=true`, are a cluster.
 *
 * @param setting the name of the setting that holds the URL
 * @throws InvalidSettingError
 */
export function parseRedisUrl(text: string, setting = 'redis'): RedisAddress {
  const [first = '', ...others] = text.split(BETWEEN_URLS)
  const parsed = [first, ...others].map((url) => (REDIS_URL.test(url) ? serverUrl(url) : undefined))
  if (parsed.includes(undefined)) {
    throw new InvalidSettingError(
      `Setting "${setting}" is ${quotedScheme(text)}: give redis://user:password@host:6379 (rediss:// with TLS; percent-encode # / ? % @ in the name and the password; for a cluster several of them with commas between, or one with ?cluster=true)`,
    )
  }
  const saysCluster = parsed[0]?.searchParams.get('cluster') === 'true'
  return { urls: [first, ...others], isCluster: saysCluster || others.length > 0 }
}
