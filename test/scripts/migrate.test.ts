import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { Database } from '../../src/database/database.js'
import { openTestDatabase, postgresqlMissing } from '../support/databases.js'
import { ratelimit } from '../support/scripts.js'

describe('ratelimit migrate', () => {
  test('creates and migrates a SQLite file, and does nothing the second time', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-migrate-'))
    try {
      const url = `file:${join(folder, 'app.db')}`
      const options = { env: { RATELIMIT_DATABASE_URL: url } }
      const first = await ratelimit(['migrate'], options)
      assert.equal(first.status, 0)
      assert.equal(first.stderr, '')
      assert.match(first.stdout, /^(?:Applied \d{14}_\w+\n)+file:.*app\.db is up to date\.\n$/)
      const second = await ratelimit(['migrate'], options)
      assert.deepEqual(second, { status: 0, stdout: `Nothing to do: ${url} is up to date.\n`, stderr: '' })
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  test('does not call a file of an earlier checkout up to date, and says what to do', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'ratelimit-migrate-'))
    try {
      const url = `file:${join(folder, 'app.db')}`
      const database = new Database(url)
      await database.ready()
      await database.execute(`UPDATE _prisma_migrations SET checksum = 'x'`)
      await database.close()
      const { status, stdout, stderr } = await ratelimit(['migrate'], { env: { RATELIMIT_DATABASE_URL: url } })
      assert.equal(status, 1)
      assert.equal(stdout, '')
      assert.match(
        stderr,
        /^ratelimit migrate: file:.*app\.db was migrated by another checkout .*move the file away.*\n$/,
      )
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  test('a PostgreSQL schema lacks its tables until it is migrated', { skip: postgresqlMissing }, async () => {
    const { url, schema: neighbour, client, close } = await openTestDatabase('postgresql')
    const schema = `${neighbour}_new`
    const options = { env: { RATELIMIT_DATABASE_URL: url } }
    try {
      const before = await ratelimit(['cleanup', '--schema', schema], options)
      assert.equal(before.status, 1)
      assert.match(before.stderr, new RegExp(`^ratelimit cleanup: .*"ratelimit migrate --schema ${schema}"\n$`))
      const migrated = JSON.parse((await ratelimit(['migrate', '--schema', schema, '--json'], options)).stdout)
      assert.notEqual(migrated.applied.length, 0)
      const env = { ...options.env, RATELIMIT_SCHEMA: schema }
      assert.equal((await ratelimit(['cleanup'], { env })).status, 0)
    } finally {
      await client.$executeRawUnsafe(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
      await close()
    }
  })

  test('a schema that is no name is wrong usage', async () => {
    const { status, stderr } = await ratelimit(['migrate', '--schema', 'a b'])
    assert.equal(status, 2)
    assert.match(stderr, /^ratelimit migrate: Setting "schema" is "a b": /)
  })
})
