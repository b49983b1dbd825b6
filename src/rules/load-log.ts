/** The most invalid rows that are logged. */
const MAX_COMPLAINTS = 100

/** The actions of changes in the past tense. */
const PAST: Readonly<Record<string, string>> = { create: 'created', update: 'updated', delete: 'deleted' }
/** The most changes that one reading logs, a line each. */
const MAX_CHANGES = 20

/** A row that raw SQL wrote past the validation, and why it is invalid. */
export interface RejectedRow {
  readonly entity: 'rule' | 'override'
  /** The rule's name, or the override's client. */
  readonly name: string
  readonly reason: string
}

export interface LoadLogOptions {
  readonly log: {
    error(details: object, message: string): void
    warn(details: object, message: string): void
    info(details: object, message: string): void
  }
  /** Returns the client of an override as the log may have it. */
  readonly toLogged?: ((client: string) => string) | undefined
}

/** A change of a rule or an override, as the history records it. */
export interface RecordedChange {
  readonly entity: string
  readonly name: string
  readonly action: string
  readonly actor: string
  readonly source: string
}

/** Logs the reading of rules and overrides: an outage once, its end, each invalid row once, and each change. */
export class LoadLog {
  readonly #log: LoadLogOptions['log']
  readonly #toLogged: (client: string) => string
  #isFailing = false
  #complaints = new Set<string>()

  constructor({ log, toLogged = String }: LoadLogOptions) {
    this.#log = log
    this.#toLogged = toLogged
  }

  /** Whether the last attempt to read the tables failed. */
  get isFailing(): boolean {
    return this.#isFailing
  }

  loaded(rejected: readonly RejectedRow[]): void {
    if (this.#isFailing) this.#log.info({}, 'Rate limit rules and overrides can be read again')
    this.#isFailing = false
    const complaints = new Set<string>()
    for (const { entity, name, reason } of rejected.slice(0, MAX_COMPLAINTS)) {
      const complaint = `${entity} ${name}: ${reason}`
      complaints.add(complaint)
      if (this.#complaints.has(complaint)) continue
      this.#log.warn({ [entity]: this.#spell(entity, name), reason }, `Rate limit ${entity} skipped: it is not valid`)
    }
    this.#complaints = complaints
  }

  changed(changes: readonly RecordedChange[]): void {
    for (const { entity, name, action, actor, source } of changes.slice(0, MAX_CHANGES)) {
      const details = { [entity]: this.#spell(entity, name), action, actor, source }
      this.#log.info(details, `Rate limit ${entity} ${PAST[action] ?? 'changed'}`)
    }
    const others = changes.length - MAX_CHANGES
    if (others > 0) this.#log.info({ others }, `Rate limit rules or overrides changed: ${others} more`)
  }

  #spell(entity: string, name: string): string {
    return entity === 'override' ? this.#toLogged(name) : name
  }

  failed(error: unknown): void {
    if (!this.#isFailing) {
      this.#log.error({ err: error }, 'Rate limit rules and overrides cannot be read: the last good ones stay in force')
    }
    this.#isFailing = true
  }
}
