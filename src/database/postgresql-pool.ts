import type pg from 'pg'
import { errorCode, errorMessage } from '../ground/errors.js'
import { loadDriver } from './postgresql-session.js'

/** The time for which a pool does with the connections that it has, once it was refused another one, in milliseconds. */
const SHORT_MS = 60_000
/** The most attempts to get a connection: one that broke meanwhile is opened again, and may be refused again. */
const MAX_ATTEMPTS = 3
/** What servers and poolers say that have no room for one more connection; the first one has a code. */
const TOO_MANY_CODE = '53300'
const TOO_MANY = /no more connections allowed|max(?:imum number of)? clients/i

type Connected = (
  error: Error | undefined,
  client: pg.PoolClient | undefined,
  release: (error?: unknown) => void,
) => void

interface PatientPool extends pg.Pool {
  /** Opens one more connection, for whoever has one; returns undefined where there is no room for it. */
  connectAnother(): Promise<pg.PoolClient | undefined>
}

/**
 * Returns the class of pools that do with fewer connections than they may have. Where the server refuses one more, whoever
 * asked for it waits for one that the pool has, as when the pool is full: a role, a pooler or a hosted plan may allow few.
 */
export function patientPool(): new (config?: pg.PoolConfig) => PatientPool {
  return class extends loadDriver().Pool implements PatientPool {
    readonly #most = this.options.max
    #open = 0
    #refusedMs = Number.NEGATIVE_INFINITY

    constructor(config?: pg.PoolConfig) {
      super(config)
      this.on('connect', () => this.#open++)
      this.on('remove', () => this.#open--)
    }

    /** Whether the server has refused a connection a short time ago. */
    get #isShort(): boolean {
      return this.options.max < this.#most
    }

    override connect(): Promise<pg.PoolClient>
    override connect(callback: Connected): void
    override connect(callback?: Connected): Promise<pg.PoolClient> | undefined {
      const connected = this.#connect(1)
      if (callback === undefined) return connected
      connected.then(
        (client) => callback(undefined, client, (error) => client.release(error === undefined ? undefined : true)),
        (error) => callback(error, undefined, () => undefined),
      )
    }

    async connectAnother(): Promise<pg.PoolClient | undefined> {
      if (this.#isShort) return undefined
      return super.connect().catch((error: unknown) => this.#noteRefusal(error))
    }

    #connect(attempt: number): Promise<pg.PoolClient> {
      if (this.#isShort && performance.now() - this.#refusedMs > SHORT_MS) this.options.max = this.#most
      return super.connect().catch((error: unknown) => {
        this.#noteRefusal(error)
        if (attempt === MAX_ATTEMPTS || this.totalCount === 0) throw error
        return this.#connect(attempt + 1)
      })
    }

    /** @throws the error where it is of another kind */
    #noteRefusal(error: unknown): undefined {
      if (errorCode(error) !== TOO_MANY_CODE && !TOO_MANY.test(errorMessage(error))) throw error
      this.#refusedMs = performance.now()
      this.options.max = Math.max(1, this.#open)
    }
  }
}
