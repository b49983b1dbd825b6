import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PACKAGE_ROOT } from '../../src/ground/package-root.js'
import { code, page, prose, table } from './markdown.js'

const PROVIDERS = ['sqlite', 'postgresql'] as const

type Provider = (typeof PROVIDERS)[number]

interface Column {
  readonly type: string
  readonly isNullable: boolean
}

interface Table {
  readonly about: string
  readonly columns: ReadonlyMap<string, Column>
}

/** The texts of a model of Prisma. */
interface Model {
  readonly about: string
  readonly fields: ReadonlyMap<string, string>
}

const CREATE_TABLE = /(?<comment>(?:^--.*\n)*)^CREATE TABLE "(?<name>\w+)" \(\n?(?<body>[\s\S]*?)\)(?: WITH[^;]*)?;$/gm
const ADD_COLUMN = /^ALTER TABLE "(?<table>\w+)" (?<columns>ADD COLUMN[\s\S]*?);$/gm
const COLUMN = /(?:^|[(,\n])\s*(?:ADD COLUMN\s+)?"(?<name>\w+)" (?<type>[A-Z]+(?:\(\d+\))?)(?<rest>[^,\n]*)/g

/** Reads the tables that the migrations make. */
function readTables(provider: Provider): Map<string, Table> {
  const folder = join(PACKAGE_ROOT, 'prisma', provider, 'migrations')
  const migrations = readdirSync(folder).filter((name) => !name.endsWith('.toml'))
  const sql = migrations.sort().map((name) => readFileSync(join(folder, name, 'migration.sql'), 'utf8'))
  const tables = new Map<string, Table>()
  for (const { groups = {} } of sql.join('\n').matchAll(CREATE_TABLE)) {
    const { comment = '', name = '', body = '' } = groups
    const about = comment.replace(/^-- ?(?:CreateTable\n)?/gm, '').trim()
    tables.set(name, { about, columns: readColumns(body) })
  }
  for (const { groups = {} } of sql.join('\n').matchAll(ADD_COLUMN)) {
    const { table: name = '', columns = '' } = groups
    const changed = tables.get(name)
    if (changed === undefined) throw new Error(`A migration of ${provider} changes ${name}, which none creates`)
    tables.set(name, { ...changed, columns: new Map([...changed.columns, ...readColumns(columns)]) })
  }
  return tables
}

function readColumns(body: string): Map<string, Column> {
  const columns = [...body.matchAll(COLUMN)].map(({ groups = {} }): [string, Column] => {
    const { name = '', type = '', rest = '' } = groups
    return [name, { type, isNullable: !rest.includes('NOT NULL') && !rest.includes('PRIMARY KEY') }]
  })
  return new Map(columns)
}

const MODEL = /(?<doc>(?:^\/\/\/.*\n)*)^model \w+ \{\n(?<body>[\s\S]*?)^\}/gm
const FIELD = /(?<doc>(?:^ {2}\/\/\/.*\n)*)^ {2}(?<name>\w+)\s+\w+\??(?<rest>.*)$/gm

/** Reads what the schema says of its tables and columns. */
function readModels(): Map<string, Model> {
  const schema = readFileSync(join(PACKAGE_ROOT, 'prisma', 'sqlite', 'schema.prisma'), 'utf8')
  const models = [...schema.matchAll(MODEL)].map(({ groups = {} }): [string, Model] => {
    const { doc = '', body = '' } = groups
    const fields = [...body.matchAll(FIELD)].map((field): [string, string] => {
      const { doc: about = '', name = '', rest = '' } = field.groups ?? {}
      return [/@map\("(\w+)"\)/.exec(rest)?.[1] ?? name, toText(about)]
    })
    const name = /@@map\("(\w+)"\)/.exec(body)?.[1] ?? ''
    return [name, { about: toText(doc), fields: new Map(fields) }]
  })
  return new Map(models)
}

function toText(doc: string): string {
  return doc
    .replace(/^\s*\/\/\/ ?/gm, '')
    .trim()
    .replace(/\s+/g, ' ')
}

function formatType(column: Column | undefined): string {
  return column === undefined ? '' : `${code(column.type)}${column.isNullable ? ' or null' : ''}`
}

/** Describes every table of both databases. */
export function tablesPage(): string {
  const [sqlite, postgresql] = PROVIDERS.map(readTables)
  if (sqlite === undefined || postgresql === undefined) throw new Error('A database has no migrations')
  const models = readModels()
  const parts = [...sqlite].sort().flatMap(([name, { about, columns }]) => {
    const model = models.get(name)
    const others = postgresql.get(name)?.columns
    if (columns.size === 0 || others?.size !== columns.size) throw new Error(`The databases differ in ${name}`)
    const rows = [...columns].map(([column, type]) => [
      code(column),
      formatType(type),
      formatType(others.get(column)),
      prose(model?.fields.get(column) ?? ''),
    ])
    return [
      `## ${name}`,
      prose(model?.about ?? about.replace(/\s+/g, ' ')),
      table(['Column', 'SQLite', 'PostgreSQL', 'Meaning'], rows),
    ]
  })
  return page('Tables', 'the migrations and the Prisma schemas', [
    'All tables are in the SQLite file, or in one schema of PostgreSQL, which the setting `schema` names. SQLite keeps moments as milliseconds since the epoch. Tables of counters, sums and sessions are not for others to write; rules, overrides and events may be read and written by SQL, and triggers keep the history and the sums right.',
    'In the sums of the log (the tables that end in `_rollup`), `span` is the length of a bucket in minutes, 1, 60 or 1440, in UTC, and `bucket` counts so many of them since the epoch.',
    ...parts,
  ])
}
