/** The most invalid rows that are logged. */
const MAX_COMPLAINTS = 100

/** A row that raw SQL wrote past the validation, and why it is invalid. */
export interface RejectedRow {
  readonly entity: 'rule' | 'override'
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly reason: string
}

export interface LoadReportsOptions {
  readonly log: {
    error(details: object, message: string): void
    warn(details: object, message: string): void
    info(message: string): void
  }
}

/** Logs the reading of rules and overrides: an outage once, its end, and each invalid row once. */
export class LoadReports {
  readonly #log: LoadReportsOptions['log']
  #isFailing = false
  #complaints = new Set<string>()

  constructor({ log }: LoadReportsOptions) {
    this.#log = log
  }

  /** Whether the last attempt to read the tables failed. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  loaded(rejected: readonly RejectedRow[]): void {
    if (this.#isFailing) this.#log.info('Rate limit rules and overrides can be read again')
    this.#isFailing = false
    const complaints = new Set<string>()
    for (const { entity, name, reason } of rejected.slice(0, MAX_COMPLAINTS)) {
      const complaint = `${entity} ${name}: ${reason}`
      complaints.add(complaint)
      if (this.#complaints.has(complaint)) continue
      this.#log.warn({ [entity]: name, reason }, `Rate limit ${entity} skipped: it is not valid`)
    }
    this.#complaints = complaints
  }

  failed(error: unknown): void {
    if (!this.#isFailing) {
      this.#log.error({ err: error }, 'Rate limit rules and overrides cannot be read: the last good ones stay in force')
    }
    this.#isFailing = true
  }
}
