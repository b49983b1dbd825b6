import type { ConditionSources } from '../clients/condition-sources.js'
import { errorCode, errorMessage, InvalidSettingError, MissingTableError } from '../ground/errors.js'
import { DEFAULT_DATABASE_URL, DEFAULT_SCHEMA, redactUrl, sqlitePath, validateDatabaseUrl } from './database-url.js'
import type {
  Dialect,
  Query,
  SqlConnection,
  SqliteFunctions,
  SqlStatement,
  SqlValue,
  SqlWork,
  Statements,
} from './dialect.js'
import type { FileWatch } from './file-watch.js'
import { applyMigrations, missingMigrations } from './migrate.js'
import { partitionLog } from './partition-log.js'
import { createPostgresqlConnection } from './postgresql.js'
import { postgresqlDialect } from './postgresql-dialect.js'
import { createSqliteConnection } from './sqlite.js'
import { sqliteDialect } from './sqlite-dialect.js'
import { unusableFileRemedy } from './sqlite-file.js'

interface DatabaseParts {
  /** The functions of SQLite that statements call. */
  readonly functions?: SqliteFunctions
  /** Whether `useThreads` has an effect; true unless given. */
  readonly mayUseThreads?: boolean | undefined
  readonly log?: Database | undefined
  /** The name of the setting in messages. */
  readonly setting?: string
}

/**
 * A database of this package, opened by the first query. That query also creates and migrates an embedded database
 * (`file:`); `ratelimit migrate` migrates the database of a server.
 */
export class Database {
  readonly url: string
  readonly schema: string
  readonly dialect: Dialect
  /** The database of the event log: its events, their sums, and usage. It is this one unless another is configured. */
  readonly log: Database
  /** Run before every report, so that it includes the latest requests. */
  readonly beforeReport = new Set<() => Promise<void>>()
  /** Listeners of every write to rules or overrides through this process; the write resolves after all of them. */
  readonly ruleListeners = new Set<() => Promise<void> | void>()
  /** Listeners of the error of every query that fails because of a fault, as `isFault` defines it. */
  readonly faultListeners = new Set<(fault: Error) => void>()
  /** Listeners of the file of an embedded database: it was replaced, and is open again. */
  readonly replacedListeners = new Set<() => Promise<void> | void>()
  /** What conditions may ask in the app that uses it; undefined where no app does, as in commands. */
  sources: ConditionSources | undefined
  /**
   * The number of times that the file was replaced: what this process knows of the one before means nothing any more.
   */
  replacements = 0
  readonly #connection: SqlConnection
  readonly #setting: string
  readonly #mayUseThreads: boolean
  readonly #threads = { statements: false, reports: false }
  #ready: Promise<void> | undefined
  #lastReport: Promise<unknown> = Promise.resolve()

  constructor(
    url: string = DEFAULT_DATABASE_URL,
    schema: string = DEFAULT_SCHEMA,
    { functions, mayUseThreads = true, log, setting = 'database' }: DatabaseParts = {},
  ) {
    validateDatabaseUrl(url, setting)
    this.url = url
    this.schema = schema
    this.log = log ?? this
    this.#setting = setting
    const embedded = url.startsWith('file:')
    this.dialect = embedded ? sqliteDialect : postgresqlDialect(schema)
    this.#mayUseThreads = mayUseThreads
    this.#connection = embedded
      ? createSqliteConnection(sqlitePath(url), this.#threads, functions)
      : createPostgresqlConnection(url, schema)
    if (!embedded) this.#ready = Promise.resolve()
  }

  /**
   * Declares, before the first query, that this process serves requests: SQLite reads its reports on a thread, and where
   * events are logged it runs all its statements on another one, but for the short ones of the limiter.
   */
  useThreads({ logsEvents }: { readonly logsEvents: boolean }): void {
    if (!this.#mayUseThreads) return
    this.#threads.reports = true
    this.#threads.statements ||= logsEvents
  }

  /** Resolves when the tables are usable, as far as this process prepares them. After a failure, a call retries. */
  ready(): Promise<void> {
    const { watch } = this.#connection
    try {
      if (watch?.isReplaced()) {
        this.#connection.reopen?.()
        this.#ready = undefined
      }
    } catch (error) {
      return Promise.reject(error)
    }
    this.#ready ??= this.#prepare(watch).catch((error: unknown) => {
      this.#ready = undefined
      throw error
    })
    return this.#ready
  }

  /**
   * Makes the event log a partitioned table.
   *
   * @returns false where it is one already
   */
  partitionLog(): Promise<boolean> {
    return this.#whenReady(() => partitionLog(this.dialect, this.#connection))
  }

  async #prepare(watch?: FileWatch): Promise<void> {
    watch?.requireFile()
    await this.migrate()
    if (!watch?.opened()) return
    this.replacements++
    await Promise.all([...this.replacedListeners].map((listener) => listener()))
  }

  /**
   * Brings the tables to the current schema and returns the names of the migrations that it applied.
   *
   * @throws InvalidSettingError when the file of an embedded database cannot be used
   * @throws MissingTableError when another checkout has made the tables
   */
  async migrate(): Promise<string[]> {
    try {
      return await applyMigrations(this.dialect, this.#connection, this.#changedMigrations)
    } catch (error) {
      const remedy = unusableFileRemedy(error)
      if (remedy === undefined) throw error
      throw new InvalidSettingError(
        `Setting "${this.#setting}" is ${this.url}, which cannot be used (${errorMessage(error)}): ${remedy}`,
        { cause: error },
      )
    }
  }

  /**
   * Reads from the ledger whether all migrations of this version were applied.
   *
   * @throws MissingTableError naming the missing ones, or those that another checkout has made other tables with
   */
  async requireMigrations(): Promise<void> {
    await this.explained(async () => {
      const missing = await missingMigrations(this.dialect, this.query, this.#changedMigrations)
      if (missing.length === 0) return
      throw new MissingTableError(`${redactUrl(this.url)} lacks ${missing.join(', ')}: ${this.#migrationRemedy()}`)
    })
  }

  async rulesChanged(): Promise<void> {
    await Promise.all([...this.ruleListeners].map((listener) => listener()))
  }

  readonly query: Query = <Row>(sql: string, parameters?: readonly SqlValue[]) =>
    this.#whenReady(() => this.#connection.query<Row>(sql, parameters))

  execute(sql: string, parameters?: readonly SqlValue[]): Promise<number> {
    return this.#whenReady(() => this.#connection.execute(sql, parameters))
  }

  /** Runs statements that take less time than handing them to a thread. Others that are under way come first. */
  readonly short: Statements = {
    query: <Row>(sql: string, parameters?: readonly SqlValue[]) =>
      this.#whenReady(() => this.#connection.short.query<Row>(sql, parameters)),
    execute: (sql, parameters) => this.#whenReady(() => this.#connection.short.execute(sql, parameters)),
  }

  /**
   * Runs statements one after the other, all or none.
   *
   * @returns the number of changed rows; null where they were undone, as `SqlStatement.mustChange` says
   */
  transaction(statements: readonly SqlStatement[]): Promise<number | null> {
    return this.#whenReady(() => this.#connection.transaction(statements))
  }

  /**
   * Reads a report as of one moment, after this process has written what it still buffers. Reports run one after the
   * other, so that they never take all connections from the limiter.
   */
  report<T>(read: (query: Query) => Promise<T>): Promise<T> {
    const report = this.#lastReport.then(async () => {
      await Promise.all([...this.beforeReport].map((flush) => flush()))
      return this.snapshot(read)
    })
    this.#lastReport = report.catch(() => undefined)
    return report
  }

  /** Runs queries that all see the database as of one moment. On SQLite they wait for a running report. */
  snapshot<T>(read: (query: Query) => Promise<T>): Promise<T> {
    return this.#whenReady(() => this.#connection.snapshot(read))
  }

  /** Runs `work` in one transaction, during which no other connection writes to `tables`. */
  locked<T>(tables: readonly string[], work: () => SqlWork<T>): Promise<T> {
    const qualified = tables.map((table) => this.dialect.table(table))
    return this.#whenReady(() => this.#connection.locked(qualified, work))
  }

  #whenReady<T>(work: () => Promise<T>): Promise<T> {
    return this.explained(async () => {
      await this.ready()
      return work()
    })
  }

  /** Runs `work`, and adds the remedy to its error when a table is missing. */
  async explained<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      const explained = this.#explain(error)
      if (isFault(explained)) for (const listener of this.faultListeners) listener(explained)
      throw explained
    }
  }

  #explain(error: unknown): unknown {
    if (this.dialect.mixesStatements(error)) {
      // The statement is not named: the log has one line for a cause.
      return new InvalidSettingError(
        `Setting "${this.#setting}" leads through a pooler that gives each transaction another connection (transaction pooling), and does not keep prepared statements apart: use session pooling, or PgBouncer 1.21 or later with max_prepared_statements above 0`,
      )
    }
    if (!isPrismaMissingTable(error) && !this.dialect.isMissingTable(error)) return error
    return new MissingTableError(`A table is missing in ${redactUrl(this.url)}: ${this.#migrationRemedy()}`, {
      cause: error,
    })
  }

  readonly #changedMigrations = (names: readonly string[]): Error => {
    const remake =
      this.dialect.provider === 'sqlite'
        ? 'move the file away'
        : `drop its tables (schema ${this.schema}), _prisma_migrations too`
    return new MissingTableError(
      `${redactUrl(this.url)} was migrated by another checkout of this package, whose tables differ (${names.join(', ')} has another checksum): with that checkout save the rules ("ratelimit rules export"), ${remake}, and ${this.#migrationRemedy()}`,
    )
  }

  #migrationRemedy(): string {
    const option = this.schema === DEFAULT_SCHEMA ? '' : ` --schema ${this.schema}`
    return `apply this package's migrations with "ratelimit migrate${option}"`
  }

  /** Closes the database of the log, too. */
  async close(): Promise<void> {
    await Promise.all([this.#connection.close(), ...(this.log === this ? [] : [this.log.close()])])
  }
}

/** Returns both databases, or the one that is both. */
export function allDatabases(database: Database): Database[] {
  return [...new Set([database, database.log])]
}

/** Returns whether an error needs an operator: tables are missing, or the database is unusable. */
export function isFault(error: unknown): error is Error {
  return error instanceof MissingTableError || error instanceof InvalidSettingError
}

function isPrismaMissingTable(error: unknown): boolean {
  return errorCode(error) === 'P2021'
}

const databases = new WeakMap<object, Database>()

/** Remembers the database of a client made by `createRateLimitClient`. */
export function attachDatabase(client: object, database: Database): void {
  databases.set(client, database)
}

/** @throws InvalidSettingError when the client was not made by `createRateLimitClient` */
export function databaseFor(client: object): Database {
  const database = client instanceof Database ? client : databases.get(client)
  if (database === undefined) {
    throw new InvalidSettingError(
      'Setting "database" is an object that createRateLimitClient did not create: give a URL or such a client',
    )
  }
  return database
}
