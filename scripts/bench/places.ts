import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '../../src/index.js'
import { dropSchema, type Need, POSTGRES_URL, REDIS_URL, removeRedisKeys } from './servers.js'

/** A database of its own for one measurement. */
export interface Place {
  /** The URL of the database; empty when none is needed. */
  readonly url: string
  /** The PostgreSQL schema and the prefix of keys: letters, digits and underscores. */
  readonly name: string
}

/** Creates the places of one run of the benchmark, and removes them. */
export class Places {
  readonly #folder = mkdtempSync(join(tmpdir(), 'ratelimit-bench-'))
  #made = 0

  static async open(): Promise<Places> {
    return new Places()
  }

  /** Passes an empty database to `use`, so that rows do not affect each other, and removes it afterwards. */
  async with<Result>({ needs }: { readonly needs?: Need }, use: (place: Place) => Promise<Result>): Promise<Result> {
    const name = `bench_${process.pid}_${++this.#made}`
    try {
      if (needs === 'postgresql') {
        await migrate({ database: POSTGRES_URL, schema: name })
        return await use({ url: POSTGRES_URL, name })
      }
      if (needs === 'redis') return await use({ url: REDIS_URL, name })
      return await use({ url: needs === 'sqlite' ? `file:${join(this.#folder, `${name}.db`)}` : '', name })
    } finally {
      if (needs === 'postgresql') await dropSchema(name)
      if (needs === 'redis') await removeRedisKeys(name)
    }
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }
}
