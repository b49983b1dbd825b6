import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { migrate } from '../../src/index.js'
import { PACKAGE_ROOT } from '../../src/package-root.js'
import type { Place, Row } from './row.js'
import { dropSchema, POSTGRES_URL, REDIS_URL, removeRedisKeys } from './servers.js'

const PRISMA = join(PACKAGE_ROOT, 'node_modules', 'prisma', 'build', 'index.js')

/** Creates the places of one run of the benchmark, and removes them. */
export class Places {
  readonly #folder: string
  #prismaClient = ''
  #made = 0

  private constructor(folder: string) {
    this.#folder = folder
  }

  static async open(): Promise<Places> {
    return new Places(await mkdtemp(join(tmpdir(), 'ratelimit-bench-')))
  }

  /** Passes an empty database to `use`, so that rows do not affect each other, and removes it afterwards. */
  async with<Result>(row: Pick<Row, 'needs' | 'needsPrisma'>, use: (place: Place) => Promise<Result>): Promise<Result> {
    const name = `bench_${process.pid}_${++this.#made}`
    const prismaClient = row.needsPrisma === true ? await this.#generatePrismaClient() : ''
    if (row.needs === 'postgresql') {
      try {
        await migrate({ database: POSTGRES_URL, schema: name })
        return await use({ url: POSTGRES_URL, name, prismaClient })
      } finally {
        await dropSchema(name)
      }
    }
    if (row.needs === 'redis') {
      try {
        return await use({ url: REDIS_URL, name, prismaClient })
      } finally {
        await removeRedisKeys(name)
      }
    }
    return use({ url: row.needs === 'sqlite' ? `file:${join(this.#folder, `${name}.db`)}` : '', name, prismaClient })
  }

  async close(): Promise<void> {
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Generates without network: a program is named as the engine, so that Prisma downloads none. It uses none. */
  async #generatePrismaClient(): Promise<string> {
    if (this.#prismaClient !== '') return this.#prismaClient
    const folder = join(this.#folder, 'prisma-client')
    const schema = join(PACKAGE_ROOT, 'scripts', 'bench', 'prisma', 'schema.prisma')
    await promisify(execFile)(process.execPath, [PRISMA, 'generate', '--schema', schema], {
      cwd: PACKAGE_ROOT,
      env: { ...process.env, BENCH_PRISMA_CLIENT: folder, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath },
    })
    this.#prismaClient = folder
    return folder
  }
}
