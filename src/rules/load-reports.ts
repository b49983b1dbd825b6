/** Of thousands of rows that are wrong the log need not have every one. */
const MAX_COMPLAINTS = 100

/** A row that raw SQL wrote past the validation, and what is wrong with it. */
export interface RejectedRow {
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly reason: string
}

export interface LoadReportsOptions {
  /** What the table holds. */
  readonly entity: 'rule' | 'override'
  /** Which of the caches of one database cannot be read: the first tells about the outage as an error. */
  readonly failing: Set<string>
  readonly log: {
    error(details: object, message: string): void
    warn(details: object, message: string): void
    info(message: string): void
  }
}

/** Tells the log how the reading of a table goes: about an outage once, when it is over, and about each wrong row once. */
export class LoadReports {
  readonly #options: LoadReportsOptions
  #isFailing = false
  #complaints = new Set<string>()

  constructor(options: LoadReportsOptions) {
    this.#options = options
  }

  /** Whether the table could not be read the last time. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  loaded(rejected: readonly RejectedRow[]): void {
    const { log, entity, failing } = this.#options
    if (this.#isFailing) log.info(`Rate limit ${entity}s can be read again`)
    this.#isFailing = false
    failing.delete(entity)
    const complaints = new Set<string>()
    for (const { name, reason } of rejected.slice(0, MAX_COMPLAINTS)) {
      const complaint = `${name}: ${reason}`
      complaints.add(complaint)
      if (this.#complaints.has(complaint)) continue
      log.warn({ [entity]: name, reason }, `Rate limit ${entity} skipped: it is not valid`)
    }
    this.#complaints = complaints
  }

  failed(error: unknown): void {
    if (!this.#isFailing) {
      const { log, entity, failing } = this.#options
      const level = failing.size === 0 ? 'error' : 'warn'
      log[level]({ err: error }, `Rate limit ${entity}s cannot be read: the last good ones stay in force`)
      failing.add(entity)
    }
    this.#isFailing = true
  }
}
