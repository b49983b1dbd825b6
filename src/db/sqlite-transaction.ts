import type { Query, SqlValue } from './dialect.js'
import { whileBusy } from './sqlite-busy.js'
import type { SqliteDatabase } from './sqlite-driver.js'
import { named, rows } from './sqlite-file.js'

/** Runs `work` in one transaction. */
export async function inTransaction<T>(
  database: SqliteDatabase,
  begin: string,
  work: (query: Query) => Promise<T>,
): Promise<T> {
  await whileBusy(() => database.exec(begin))
  try {
    const result = await work(async <Row>(sql: string, parameters: readonly SqlValue[] = []) =>
      rows<Row>(runOnce(database, sql, parameters)),
    )
    database.exec('COMMIT')
    return result
  } catch (error) {
    if (database.inTransaction) database.exec('ROLLBACK')
    throw error
  }
}

export function runOnce(database: SqliteDatabase, sql: string, parameters: readonly SqlValue[]): unknown[] {
  const statement = database.prepare(sql)
  if (statement.reader) return statement.all(named(parameters))
  statement.run(named(parameters))
  return []
}
