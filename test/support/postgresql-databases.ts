import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import pg from 'pg'
import { atEnd } from './at-end.js'
import { POSTGRES_URL } from './postgresql-schemas.js'

export interface OwnDatabase {
  readonly url: string
  readonly name: string
  /** Runs a statement beside the database, on the one of the tests. */
  sql(text: string): Promise<unknown>
}

/** A new database beside the one of the tests, with settings of its own; removed at the end of the test. */
export async function createDatabase(
  t: TestContext,
  { encoding = 'UTF8', settings = {} }: { encoding?: string; settings?: Readonly<Record<string, string>> },
): Promise<OwnDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const admin = new pg.Client({ connectionString: POSTGRES_URL })
  await admin.connect()
  atEnd(t, async () => {
    await admin.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
    await admin.end()
  })
  await admin.query(`CREATE DATABASE ${name} ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`)
  for (const [setting, value] of Object.entries(settings)) {
    await admin.query(`ALTER DATABASE ${name} SET ${setting} = ${value}`)
  }
  const url = new URL(POSTGRES_URL)
  url.pathname = `/${name}`
  return { url: url.href, name, sql: (text) => admin.query(text) }
}
