import { InvalidSettingError, messageOf } from '../errors.js'
import { parseRedisUrl } from './redis-url.js'

/** What is needed of a Redis client; a `Redis` and a `Cluster` of ioredis have all of it. */
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
 * @param setting what it is called where it was given
 * @throws InvalidSettingError when a URL is none of Redis, or an object no client of ioredis
 */
export function checkRedis(redis: string | object, setting = 'redis'): void {
  if (typeof redis === 'string') parseRedisUrl(redis, setting)
  else if (!('status' in redis) || METHODS.some((name) => typeof Reflect.get(redis, name) !== 'function')) {
    throw new InvalidSettingError(
      `Setting "${setting}" is an object that is no client of ioredis: give a URL such as redis://127.0.0.1:6379, or a Redis or Cluster of ioredis`,
    )
  }
}

/** States of a client that is about to be ready, or to find out that it cannot be. */
const STARTING: ReadonlySet<string> = new Set(['wait', 'connecting', 'connect'])

/** A client of Redis: the host's, or one of our own, which is opened when it is first needed. */
export class RedisConnection {
  readonly #given: string | RedisClient
  #opened: Promise<RedisClient> | undefined
  #disconnect: () => void = () => undefined
  #started: Promise<void> | undefined
  #lastError: unknown
  #closed = false

  /** @throws InvalidSettingError as `checkRedis` does */
  constructor(redis: string | RedisClient) {
    checkRedis(redis)
    this.#given = redis
  }

  /**
   * Makes the client, and connects to nothing yet.
   *
   * @throws InvalidSettingError when ioredis is needed and not installed
   */
  load(): Promise<RedisClient> {
    this.#opened ??= this.#open()
    return this.#opened
  }

  /**
   * The client, when it is ready.
   *
   * @throws InvalidSettingError when ioredis is needed and not installed
   * @throws Error at once when Redis cannot be reached at the moment
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

  /** Resolves when Redis can be reached, or need not be reached any more. */
  async ready(): Promise<void> {
    try {
      await this.client()
    } catch (error) {
      if (!this.#closed) throw error
    }
  }

  /** Runs commands. Their errors are told by their message alone: ioredis adds what was sent, passwords included. */
  async explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      throw new Error(`Redis: ${messageOf(error)}`)
    }
  }

  /** Lets go of a client of our own, whether Redis answers or not. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#opened?.catch(() => undefined)
    this.#disconnect()
    this.#disconnect = () => undefined
  }

  async #open(): Promise<RedisClient> {
    if (typeof this.#given !== 'string') return this.#given
    // Only now, so that nobody needs ioredis who does not use it.
    const { openRedis } = await import('./open-redis.js')
    const client = await openRedis(this.#given)
    client.on('error', (error) => {
      this.#lastError = error
    })
    this.#disconnect = () => client.disconnect()
    return client
  }

  #unreachable({ status }: RedisClient): Error {
    const why = this.#lastError === undefined ? '' : `: ${messageOf(this.#lastError)}`
    return new Error(`Redis is not connected (${this.#closed ? 'closed' : status})${why}`)
  }
}

/** Resolves when a client that is starting is ready, or has failed for this time. */
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
