/** Functions that statements may call in SQLite. */
export interface SqliteFunctions {
  /** The module that exports this as `SQLITE_FUNCTIONS`, as `modulePath` takes it: functions cannot be sent to a thread. */
  readonly module: string
  register(database: FunctionTarget): void
}

/** What functions are registered in. The types of the driver are not installed with this package. */
interface FunctionTarget {
  function(name: string, run: (...values: never[]) => unknown): unknown
}
