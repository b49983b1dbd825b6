import { errorMessage } from '../ground/errors.js'
import { type RedisClient, validateRedis } from './redis-client.js'

/** Returns the clients of the nodes of a cluster that have keys, or the client of the one server. */
export function keyNodes(client: RedisClient): readonly object[] {
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

/** The number of keys that a step of a search reads. */
const KEYS_PER_STEP = 1_000

/**
 * Passes all keys with some beginning to a function, some at a time and some of them twice: of all nodes of a cluster. `?` in
 * the beginning stands for any character.
 */
export async function forEachKey(
  client: RedisClient,
  beginning: string,
  visit: (keys: readonly string[]) => Promise<void>,
): Promise<void> {
  // Commands of a host's client have its prefix before each key, which a search knows nothing of.
  const before = keyPrefixOf(client)
  const pattern = `${(before + beginning).replace(/[[\]*\\^]/g, '\\$&')}*`
  for (const node of keyNodes(client)) {
    for (let cursor = ''; cursor !== '0'; ) {
      const answer: unknown = await scan(node, cursor || '0', pattern)
      if (!isScanned(answer)) throw new Error('Redis did not answer with keys')
      cursor = String(answer[0])
      await visit(answer[1].map((key) => String(key).slice(before.length)))
    }
  }
}

function scan(node: object, cursor: string, pattern: string): unknown {
  const method: unknown = Reflect.get(node, 'scan')
  if (typeof method !== 'function') throw new Error('the client of Redis has no method scan')
  return Reflect.apply(method, node, [cursor, 'MATCH', pattern, 'COUNT', KEYS_PER_STEP])
}

function isScanned(answer: unknown): answer is [cursor: unknown, keys: unknown[]] {
  return Array.isArray(answer) && Array.isArray(answer[1])
}

function keyPrefixOf(client: object): string {
  const options: unknown = Reflect.get(client, 'options')
  const prefix: unknown =
    typeof options === 'object' && options !== null ? Reflect.get(options, 'keyPrefix') : undefined
  return typeof prefix === 'string' ? prefix : ''
}

function hasNodes(client: object): client is { nodes(role: 'master'): object[] } {
  return typeof Reflect.get(client, 'nodes') === 'function'
}

/** The states of a client before it is ready or fails. */
const STARTING: ReadonlySet<string> = new Set(['wait', 'connecting', 'connect'])

/** A connection to Redis: the host's client, or an own one, which is opened when it is first needed. */
export class RedisConnection {
  readonly #target: string | RedisClient
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
    this.#target = redis
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
    if (typeof this.#target !== 'string') return this.#target
    // Imported here, so that only hosts that use ioredis need it.
    const { openRedis } = await import('./open-redis.js')
    const client = await openRedis(this.#target)
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
