import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { Database } from '../../src/database/database.js'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { migrate } from '../../src/index.js'
import { forEachDatabase } from '../support/databases.js'
import { long } from '../support/long.js'
import { LOADER, moduleUrl } from '../support/modules.js'

const run = promisify(execFile)

forEachDatabase((provider, open) => {
  const folder = join(PACKAGE_ROOT, 'prisma', provider, 'migrations')
  const names = readdirSync(folder).filter((name) => !name.endsWith('.toml'))

  describe('migrating', () => {
    test('is done once, however many processes start at once', long(), async () => {
      const database = await open()
      const url = provider === 'sqlite' ? `${database.url}.fresh` : database.url
      const schema = `${database.schema}_fresh`
      try {
        const script = `import { migrate } from ${JSON.stringify(moduleUrl('src/index'))}
          migrate({ database: process.argv[1], schema: process.argv[2] }).then((applied) => console.log(applied.length))`
        const processes = Array.from({ length: 4 }, () =>
          run(process.execPath, [...LOADER, '--input-type=module', '-e', script, url, schema], {
            cwd: PACKAGE_ROOT,
          }),
        )
        const applied = await Promise.all(processes)
        assert.deepEqual(applied.map(({ stdout }) => Number(stdout)).sort(), [0, 0, 0, names.length])
        assert.deepEqual(await migrate({ database: url, schema }), [])
      } finally {
        if (provider === 'postgresql')
          await database.client.$executeRawUnsafe(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
        await database.close()
      }
    })

    test('fails on tables of an earlier checkout, and says what to do, as does what asks whether all is migrated', async () => {
      const { url, schema, database, close } = await open()
      try {
        const ledger = database.dialect.table('_prisma_migrations')
        await database.execute(`UPDATE ${ledger} SET checksum = $1 WHERE migration_name = $2`, ['x', names[0] ?? ''])
        const other = new Database(url, schema)
        const told = new RegExp(
          `another checkout .*${names[0]} has another checksum.*"ratelimit rules export".*${provider === 'sqlite' ? 'move the file away' : schema}.*"ratelimit migrate`,
        )
        await assert.rejects(migrate({ database: url, schema }), told)
        await assert.rejects(database.requireMigrations(), told)
        await assert.rejects(
          other.ready().then(() => other.requireMigrations()),
          told,
        )
        await other.close()
        await database.execute(`UPDATE ${ledger} SET checksum = $1 WHERE migration_name = $2`, [
          createHash('sha256')
            .update(readFileSync(join(folder, names[0] ?? '', 'migration.sql')))
            .digest('hex'),
          names[0] ?? '',
        ])
        assert.deepEqual(await migrate({ database: url, schema }), [])
      } finally {
        await close()
      }
    })

    test('is recorded as Prisma records it', async () => {
      const database = await open()
      try {
        const rows = await database.database.query<Record<string, unknown>>(
          `SELECT id, checksum, migration_name, finished_at, rolled_back_at, logs, applied_steps_count
           FROM ${database.database.dialect.table('_prisma_migrations')} ORDER BY migration_name`,
        )
        assert.deepEqual(
          rows.map((row) => [row.migration_name, row.checksum, row.rolled_back_at, row.logs, row.applied_steps_count]),
          names.map((name) => {
            const sql = readFileSync(join(folder, name, 'migration.sql'))
            return [name, createHash('sha256').update(sql).digest('hex'), null, null, 1]
          }),
        )
        assert.ok(rows.every(({ id, finished_at }) => /^[0-9a-f-]{36}$/.test(String(id)) && Number(finished_at) > 0))
      } finally {
        await database.close()
      }
    })
  })
})
