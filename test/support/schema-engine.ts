/**
 * `prisma migrate diff`, by the engine that the command would download as a program: here it is WebAssembly, and reads a
 * database through a connection of ours. (Prisma's own adapters cannot read all that it asks for.)
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  bindMigrationAwareSqlAdapterFactory,
  ColumnTypeEnum,
  type SqlQuery,
  type SqlResultSet,
} from '@prisma/driver-adapter-utils'
import * as engine from '@prisma/schema-engine-wasm/schema_engine_bg'
import pg from 'pg'
import { openSqliteFile } from '../../src/database/sqlite-driver.js'
import type { Provider, TestDatabase } from './databases.js'

/** The class that Node has, and TypeScript's library for servers lacks. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: object) => { readonly exports: { __wbindgen_start(): void } }
}

const WASM = fileURLToPath(import.meta.resolve('@prisma/schema-engine-wasm')).replace(/\.js$/, '_bg.wasm')

/**
 * The SQL that would turn the tables of a database into those of a schema.
 *
 * @param schema the text of a `schema.prisma`
 * @param others tables that no model is for
 */
export async function migrateDiff(
  provider: Provider,
  database: TestDatabase,
  schema: string,
  others: readonly string[],
): Promise<string> {
  startEngine()
  const reader = provider === 'sqlite' ? readSqlite(database.url) : await readPostgresql(database.url)
  const adapter = {
    provider: provider === 'sqlite' ? ('sqlite' as const) : ('postgres' as const),
    adapterName: 'read-only',
    queryRaw: reader.query,
    executeRaw: refuse,
    executeScript: refuse,
    startTransaction: refuse,
    getConnectionInfo: () => ({ schemaName: database.schema, supportsRelationJoins: false }),
    dispose: async () => undefined,
  }
  const factory = { ...adapter, connect: async () => adapter, connectToShadowDb: refuse }
  const files = [{ path: 'schema.prisma', content: schema }]
  try {
    const schemaEngine = await engine.SchemaEngine.new(
      { datamodels: [['schema.prisma', schema]] },
      () => undefined,
      bindMigrationAwareSqlAdapterFactory(factory),
    )
    const { stdout } = await schemaEngine.diff({
      from: { tag: 'schemaDatasource', files, configDir: '.' },
      to: { tag: 'schemaDatamodel', files },
      script: true,
      exitCode: null,
      filters: {
        externalTables: others.map((table) => (provider === 'sqlite' ? table : `${database.schema}.${table}`)),
        externalEnums: [],
      },
    })
    return (stdout ?? '').trim()
  } finally {
    await reader.close()
  }
}

async function refuse(): Promise<never> {
  throw new Error('Comparing reads only')
}

interface Reader {
  query(query: SqlQuery): Promise<SqlResultSet>
  close(): Promise<void>
}

let isStarted = false

function startEngine(): void {
  if (isStarted) return
  isStarted = true
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(WASM)), {
    './schema_engine_bg.js': engine,
  })
  engine.__wbg_set_wasm(exports)
  exports.__wbindgen_start()
}

function readSqlite(url: string): Reader {
  const database = openSqliteFile(url.slice('file:'.length), { readonly: true })
  return {
    async query({ sql, args }) {
      // The driver is built without texts in double quotes.
      const statement = database.prepare(sql.replace(/"((?:rate_limit|sqlite_autoindex)_\w+)"/g, "'$1'")).raw()
      const rows = statement.all(args) as unknown[][]
      const columns = statement.columns()
      return {
        columnNames: columns.map(({ name }) => name),
        columnTypes: columns.map((_column, index) =>
          rows.some((row) => typeof row[index] === 'number') ? ColumnTypeEnum.Int64 : ColumnTypeEnum.Text,
        ),
        rows,
      }
    },
    async close() {
      database.close()
    },
  }
}

/** PostgreSQL's numbers of the types that its catalogue has, besides texts. */
const CATALOGUE_TYPES: Readonly<Record<number, SqlResultSet['columnTypes'][number]>> = {
  16: ColumnTypeEnum.Boolean,
  18: ColumnTypeEnum.Character,
  20: ColumnTypeEnum.Int64,
  21: ColumnTypeEnum.Int32,
  23: ColumnTypeEnum.Int32,
  26: ColumnTypeEnum.Int64,
  1000: ColumnTypeEnum.BooleanArray,
  1002: ColumnTypeEnum.CharacterArray,
  1003: ColumnTypeEnum.TextArray,
  1005: ColumnTypeEnum.Int32Array,
  1007: ColumnTypeEnum.Int32Array,
  1009: ColumnTypeEnum.TextArray,
}

const TEXT_ARRAY = 1009

async function readPostgresql(url: string): Promise<Reader> {
  const client = new pg.Client(url)
  await client.connect()
  const types = {
    // The driver knows no arrays of names and of single characters.
    getTypeParser: (oid: number) => pg.types.getTypeParser(oid === 1002 || oid === 1003 ? TEXT_ARRAY : oid),
  }
  return {
    async query({ sql, args }) {
      const { fields, rows } = await client.query({ text: sql, values: args, rowMode: 'array', types })
      return {
        columnNames: fields.map(({ name }) => name),
        columnTypes: fields.map(({ dataTypeID }) => CATALOGUE_TYPES[dataTypeID] ?? ColumnTypeEnum.Text),
        rows,
      }
    },
    close: () => client.end(),
  }
}
