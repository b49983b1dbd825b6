import pg from 'pg'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'

export interface StatementCount {
  /** The statements that were run, on any connection of this process, Prisma's too. */
  readonly statements: string[]
  /** Returns the statements that name a table. */
  of(table: string): string[]
  stop(): void
}

/** Notes every statement that this process runs, until it is stopped. */
export function countStatements(): StatementCount {
  const statements: string[] = []
  const restore = [...watchSqlite(statements), watchPostgresql(statements)]
  return {
    statements,
    of: (table) => statements.filter((sql) => sql.includes(table)),
    stop() {
      for (const undo of restore) undo()
    },
  }
}

function watchSqlite(statements: string[]): (() => void)[] {
  const database = openSqliteFile(':memory:')
  const prototypes: [object, string, (self: object, sql: unknown) => unknown][] = [
    ...['run', 'get', 'all', 'iterate'].map((name): (typeof prototypes)[number] => [
      Object.getPrototypeOf(database.prepare('SELECT 1')),
      name,
      (self) => Reflect.get(self, 'source'),
    ]),
    [Object.getPrototypeOf(database), 'exec', (_self, sql) => sql],
  ]
  database.close()
  return prototypes.map(([prototype, name, sqlOf]) =>
    wrap(prototype, name, (self, first) => statements.push(String(sqlOf(self, first)))),
  )
}

function watchPostgresql(statements: string[]): () => void {
  return wrap(pg.Client.prototype, 'query', (_self, first) => {
    if (typeof first === 'string') statements.push(first)
    else if (typeof first === 'object' && first !== null) statements.push(String(Reflect.get(first, 'text')))
  })
}

function wrap(prototype: object, name: string, note: (self: object, first: unknown) => void): () => void {
  const original: unknown = Reflect.get(prototype, name)
  if (typeof original !== 'function') throw new TypeError(`There is no method ${name} to watch`)
  function watched(this: object, ...parameters: unknown[]): unknown {
    note(this, parameters[0])
    return Reflect.apply(Object(original), this, parameters)
  }
  Reflect.set(prototype, name, watched)
  return () => {
    Reflect.set(prototype, name, original)
  }
}
